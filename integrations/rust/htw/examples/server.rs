// SPDX-License-Identifier: MIT
//! A server that echoes lines, by tokio with two workers, and closes a connection from which
//! nothing has come for a time: `server [ADDRESS [MILLISECONDS]]`.

use htw::service::{Driver, Service};
use htw::Options;
use std::time::Duration;
use std::{env, io};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

async fn drive(driver: Driver) -> io::Result<()> {
    let fd = AsyncFd::new(driver)?;

    loop {
        let mut ready = fd.readable().await?;
        if fd.get_ref().turn()? {
            ready.clear_ready();
        }
    }
}

async fn serve(mut client: TcpStream, timers: Service, idle: Duration) -> io::Result<()> {
    let mut buffer = [0; 1024];

    loop {
        let n = timers.timeout(idle, client.read(&mut buffer)).await??;
        if n == 0 {
            return Ok(());
        }
        client.write_all(&buffer[..n]).await?;
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> io::Result<()> {
    let mut arguments = env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:7777".into());
    let idle = arguments.next().map_or(Ok(30_000), |ms| ms.parse());
    let idle = Duration::from_millis(idle.map_err(|e| io::Error::new(io::ErrorKind::Other, e))?);
    let (timers, drivers) = Service::open(2, &Options::new().limit(1 << 24))?;

    for driver in drivers {
        tokio::spawn(drive(driver));
    }
    let listener = TcpListener::bind(address).await?;
    println!("listening on {}", listener.local_addr()?);
    loop {
        let (client, from) = listener.accept().await?;
        let timers = timers.clone();
        tokio::spawn(async move {
            if let Err(error) = serve(client, timers, idle).await {
                println!("{}: {}", from, error);
            }
        });
    }
}
