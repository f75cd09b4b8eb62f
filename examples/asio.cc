// SPDX-License-Identifier: MIT
/*
 * An echo server in Asio that closes idle connections: a call for each of them, one descriptor for all
 *
 *   asio [MILLISECONDS [CONNECTIONS]]   listen on a port, and print it; end after that many connections
 *
 * The timers are in /dev/htw if it can be opened, and else in the process. A message costs no call of
 * a timer: it notes the time, and the function that comes at the old deadline has itself called again
 * for the rest. The limit of open files must be higher than the number of connections.
 */
#include <libhtw.hpp>

#include <asio.hpp>
#include <sys/resource.h>

#include <array>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <utility>

using asio::ip::tcp;
using namespace std::chrono_literals;

namespace {

// Makes a dispatcher's calls in Asio's loop.
class loop_timers {
public:
	explicit loop_timers(asio::io_context &loop) : readable_(loop, calls.fd()) { watch(); }
	loop_timers(const loop_timers &) = delete;
	loop_timers &operator=(const loop_timers &) = delete;
	~loop_timers() { readable_.release(); }		// the descriptor is the dispatcher's

	libhtw::dispatcher calls;

	// So that the loop can end.
	void stop() { readable_.cancel(); }

private:
	void watch()
	{
		readable_.async_wait(asio::posix::stream_descriptor::wait_read, [this](std::error_code ec) {
			if (ec)
				return;
			calls.dispatch(0s);
			watch();
		});
	}

	asio::posix::stream_descriptor readable_;
};

struct server {
	asio::io_context loop;
	loop_timers timers{loop};
	tcp::acceptor acceptor{loop, tcp::endpoint(asio::ip::address_v4::loopback(), 0)};
	std::chrono::milliseconds idle;
	unsigned long left, open = 0;

	server(std::chrono::milliseconds idle_for, unsigned long connections)
		: idle(idle_for), left(connections)
	{
		acceptor.listen(4096);
	}
	void accept();
	void closed();
};

class connection : public std::enable_shared_from_this<connection> {
public:
	connection(server &of, tcp::socket socket) : of_(of), socket_(std::move(socket)) { of_.open++; }
	connection(const connection &) = delete;
	connection &operator=(const connection &) = delete;
	~connection() { of_.closed(); }

	// The call is the connection's, and stopped with it: its function cannot find it gone.
	void start()
	{
		auto &calls = of_.timers.calls;

		heard_ = calls.now();
		idle_ = calls.own(calls.call_after(of_.idle, [this](libhtw::this_call &call) {
			const auto rest = heard_ + of_.idle - of_.timers.calls.now();
			std::error_code ignored;

			if (rest > 0ns)
				call.again(rest);
			else
				socket_.close(ignored);		// ends the read or write
		}));
		read();
	}

private:
	void read()
	{
		socket_.async_read_some(asio::buffer(buffer_), [self = shared_from_this()](std::error_code ec,
											    std::size_t size) {
			if (!ec)
				self->write(size);
		});
	}
	void write(std::size_t size)
	{
		heard_ = of_.timers.calls.now();
		asio::async_write(socket_, asio::buffer(buffer_, size),
				  [self = shared_from_this()](std::error_code ec, std::size_t) {
			if (!ec)
				self->read();
		});
	}

	server &of_;
	tcp::socket socket_;
	std::array<char, 512> buffer_{};
	libhtw::dispatcher::time_point heard_{};
	libhtw::call idle_;
};

void server::accept()
{
	acceptor.async_accept([this](std::error_code ec, tcp::socket socket) {
		if (ec)
			throw std::system_error(ec, "accept");
		std::make_shared<connection>(*this, std::move(socket))->start();
		if (--left)
			accept();
	});
}

void server::closed()
{
	if (!--open && !left)
		timers.stop();
}

void raise_limit()
{
	rlimit files{};

	if (getrlimit(RLIMIT_NOFILE, &files))
		throw std::system_error(errno, std::generic_category(), "getrlimit");
	files.rlim_cur = files.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &files))
		throw std::system_error(errno, std::generic_category(), "setrlimit");
}

}

int main(int argc, char **argv)
try {
	raise_limit();
	server s(std::chrono::milliseconds(argc > 1 ? std::stoul(argv[1]) : 30000),
		 argc > 2 ? std::stoul(argv[2]) : -1ul);

	std::cout << s.acceptor.local_endpoint().port() << std::endl;
	s.accept();
	s.loop.run();
	const auto timers = s.timers.calls.info().timers;
	std::cout << "all are closed, " << timers << " timers are left" << std::endl;
	return timers != 0;
} catch (const std::exception &e) {
	std::cerr << e.what() << '\n';
	return EXIT_FAILURE;
}
