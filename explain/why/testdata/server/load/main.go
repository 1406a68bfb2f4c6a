// Command load sends requests to a server that speaks memcached's text protocol, and
// prints how long they took.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

var (
	address  = flag.String("address", "127.0.0.1:11211", "of the server")
	clients  = flag.Int("clients", 8, "that send requests at the same time")
	requests = flag.Int("requests", 5000, "of each client")
	keys     = flag.Int("keys", 100000, "that requests are about")
	size     = flag.Int("size", 100, "of a value, in bytes")
	sets     = flag.Float64("sets", 0.5, "share of the requests that store a value")
	pause    = flag.Duration("pause", 500*time.Microsecond, "between the requests of a client")
	fill     = flag.Bool("fill", false, "store a value under every key first")
	command  = flag.String("command", "", "that one more client sends all the time")
	every    = flag.Duration("every", 200*time.Millisecond, "between the times it does")
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("load: ")
	flag.Parse()
	if *fill {
		c := dial()
		for k := range *keys {
			c.say(fmt.Sprintf("set key-%d 0 0 %d noreply\r\n%0*d", k, *size, *size, k))
		}
		c.get(0) // when it is answered, all are stored
		c.Close()
	}
	done := make(chan struct{})
	var other sync.WaitGroup
	if *command != "" {
		other.Go(func() { repeat(done) })
	}
	took := make([][]time.Duration, *clients)
	var all sync.WaitGroup
	for i := range took {
		all.Go(func() { took[i] = send(uint64(i)) })
	}
	all.Wait()
	close(done)
	other.Wait()
	report(slices.Concat(took...))
}

// send has a client send its requests, and gives how long each took.
func send(seed uint64) (took []time.Duration) {
	c := dial()
	defer c.Close()
	rng := rand.New(rand.NewPCG(1, seed))
	for range *requests {
		k := rng.IntN(*keys)
		begin := time.Now()
		if rng.Float64() < *sets {
			c.set(k)
		} else {
			c.get(k)
		}
		took = append(took, time.Since(begin))
		time.Sleep(*pause)
	}
	return took
}

// repeat sends the command until done is closed.
func repeat(done <-chan struct{}) {
	c := dial()
	defer c.Close()
	for {
		select {
		case <-done:
			return
		case <-time.After(*every):
			c.say(*command)
			for c.line() != "END" {
			}
		}
	}
}

func report(took []time.Duration) {
	slices.Sort(took)
	at := func(q float64) time.Duration { return took[int(q*float64(len(took)-1))].Round(time.Microsecond) }
	fmt.Printf("%d requests: median %v, p99 %v, p99.9 %v, longest %v\n", len(took), at(0.5), at(0.99), at(0.999), at(1))
}

// conn is a client's connection. What goes wrong with it ends the program.
type conn struct {
	net.Conn
	in *bufio.Reader
}

func dial() *conn {
	c, err := net.Dial("tcp", *address)
	if err != nil {
		log.Fatal(err)
	}
	return &conn{c, bufio.NewReader(c)}
}

func (c *conn) say(line string) {
	if _, err := io.WriteString(c, line+"\r\n"); err != nil {
		log.Fatal(err)
	}
}

func (c *conn) line() string {
	line, err := c.in.ReadString('\n')
	if err != nil {
		log.Fatal(err)
	}
	return strings.TrimRight(line, "\r\n")
}

func (c *conn) set(key int) {
	c.say(fmt.Sprintf("set key-%d 0 0 %d\r\n%0*d", key, *size, *size, key))
	if answer := c.line(); answer != "STORED" {
		log.Fatalf("set: the answer is %q", answer)
	}
}

func (c *conn) get(key int) {
	c.say(fmt.Sprintf("get key-%d", key))
	for line := c.line(); line != "END"; line = c.line() {
		if strings.HasPrefix(line, "ERROR") {
			log.Fatalf("get: the answer is %q", line)
		}
	}
}
