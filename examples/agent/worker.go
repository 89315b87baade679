// A worker that runs on one machine at a time: go run worker.go SOCKET ROLE. No dependencies.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

type told struct {
	Token       string  `json:"fencing_token"`
	RenewEvery  float64 `json:"renew_every_seconds"`
	Remaining   float64 `json:"remaining_seconds"`
	WindingDown bool    `json:"winding_down"`
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

type term struct {
	agent   *http.Client
	url     string
	token   string
	until   atomic.Value    // the end of the last promise
	working context.Context // done when the work has to end
	stop    func()
	over    chan struct{} // closed when nothing of the term runs any more
}

// mayAct says whether to begin a piece of work, which has to end before the promise is over. The
// monotonic clock stands still while the machine sleeps, so the wall clock has to agree.
func (t *term) mayAct() bool {
	now, until := time.Now(), t.until.Load().(time.Time)
	return t.working.Err() == nil && now.Before(until) && now.Round(0).Before(until.Round(0))
}

func (t *term) renew() bool {
	sent := time.Now() // the promise counts from here, not from the answer
	answer, err := t.agent.Post(t.url+"/renew", "", nil)
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	var p told
	if answer.StatusCode != 200 || json.NewDecoder(answer.Body).Decode(&p) != nil {
		return false
	}
	t.until.Store(sent.Add(seconds(p.Remaining)))
	return !p.WindingDown
}

func (t *term) lead(every time.Duration, work func(*term)) {
	defer close(t.over)
	ended := make(chan struct{})
	if t.renew() {
		go func() { work(t); close(ended); t.stop() }()
	} else {
		close(ended)
	}
	for t.working.Err() == nil {
		select {
		case <-t.working.Done():
		case <-time.After(every):
			if !t.renew() {
				t.stop()
			}
		}
	}
	<-ended
	if answer, err := t.agent.Post(t.url+"/done", "", nil); err == nil {
		answer.Body.Close()
	}
}

func stand(socket, role string, work func(*term)) error {
	agent := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	url := "http://agent/v1/roles/" + role
	stream, err := agent.Post(url, "", nil)
	if err != nil || stream.StatusCode != 200 {
		return fmt.Errorf("the agent refused: %v %v", stream, err)
	}
	current, event, lines := &term{}, "", bufio.NewScanner(stream.Body)
	defer func() { // whoever closes the stream says that all work has ended
		if current.stop != nil {
			current.stop()
			<-current.over
		}
		stream.Body.Close()
	}()
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		data := told{}
		if name == "event" {
			event = value
		} else if name != "data" || json.Unmarshal([]byte(value), &data) != nil {
			continue
		} else if event == "promoted" {
			current = &term{agent: agent, url: url + "/terms/" + data.Token, token: data.Token, over: make(chan struct{})}
			current.working, current.stop = context.WithCancel(context.Background())
			go current.lead(seconds(data.RenewEvery), work)
		} else if (event == "wind_down" || event == "ended") && current.token == data.Token {
			current.stop()
		}
	}
	return fmt.Errorf("the stream has ended: %v", lines.Err())
}

func main() {
	fmt.Fprintln(os.Stderr, stand(os.Args[1], os.Args[2], func(t *term) {
		for t.mayAct() {
			fmt.Printf("{\"token\": %q, \"at\": %f}\n", t.token, float64(time.Now().UnixNano())/1e9)
			time.Sleep(10 * time.Millisecond)
		}
	}))
}
