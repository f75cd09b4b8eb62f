// SPDX-License-Identifier: MIT

// Work on the jobs of a stream, some at a time, until SIGTERM or SIGINT: go run worker.go -help
//
// A job's payload is a command for the shell here; put your own work into do(). A job that is being
// worked on has its lease extended; one that fails is tried again, by the queue's settings. After
// SIGTERM no job is taken any more, and those that were are finished.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/gomodule/redigo/redis"
)

var (
	url    = flag.String("url", "redis://localhost:6379", "the server")
	stream = flag.String("stream", "jobs", "its entries are jobs")
	group  = flag.String("group", "workers", "the consumer group")
	jobs   = flag.Int("jobs", 4, "how many at a time")
	lease  = flag.Int64("lease", 30000, "how long a job is this worker's, in ms")
	pool   = &redis.Pool{MaxIdle: 100, Dial: func() (redis.Conn, error) { return redis.DialURL(*url) }}
)

// do does a job; an error makes it fail. It ends early with ctx.
func do(ctx context.Context, fields map[string]string, attempts int64) error {
	command := exec.CommandContext(ctx, "/bin/sh", "-c", fields["payload"])
	command.Env, command.Stdout = append(os.Environ(), fmt.Sprint("ATTEMPT=", attempts)), os.Stdout
	return command.Run()
}

// ask runs a command until the server can: it is restarted, becomes a replica, the queue moves; nil
// when ctx has ended.
func ask(ctx context.Context, command string, words ...interface{}) interface{} {
	for ; ctx.Err() == nil; time.Sleep(200 * time.Millisecond) {
		conn := pool.Get()
		reply, err := conn.Do(command, append([]interface{}{*stream, *group}, words...)...)
		conn.Close()
		if err == nil {
			return reply
		}
		log.Println(command, err)
	}
	return nil
}

// run does a job, and extends its lease in time for two more tries. If the job is another worker's by
// now it ends the work, and tells the server nothing.
func run(name, entry string, attempts int64, fields map[string]string) {
	ctx, end := context.WithCancel(context.Background())
	defer end()
	go func() {
		for ctx.Err() == nil {
			time.Sleep(time.Duration(*lease) * time.Millisecond / 3)
			if ask(ctx, "HTW.EXTEND", name, *lease, entry) == int64(0) {
				end()
			}
		}
	}()
	if problem := do(ctx, fields, attempts); problem == nil {
		ask(ctx, "HTW.DONE", entry)
	} else {
		wait := ask(ctx, "HTW.FAIL", name, entry, "ERROR", problem.Error())
		log.Println(entry, problem, "- again in ms, -1: given up, nil: another worker has it:", wait)
	}
}

func main() {
	flag.Parse()
	host, _ := os.Hostname()
	ctx, _ := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	var all sync.WaitGroup
	for i := 0; i < *jobs; i++ {
		all.Add(1)
		// It is used for one job at a time.
		name := fmt.Sprint(host, "-", os.Getpid(), "-", i)
		go func() {
			defer all.Done()
			for ctx.Err() == nil {
				taken, _ := redis.Values(ask(ctx, "HTW.TAKE", name, "LEASE", *lease, "BLOCK", 1000), nil)
				for _, job := range taken {
					fields, _ := redis.StringMap(job.([]interface{})[2], nil)
					run(name, string(job.([]interface{})[0].([]byte)), job.([]interface{})[1].(int64), fields)
				}
			}
		}()
	}
	all.Wait()
}
