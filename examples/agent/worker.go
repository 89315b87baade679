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

// renew asks for a promise, or ends the work. The promise counts from the sending of the request.
func (t *term) renew() {
	sent, p := time.Now(), told{WindingDown: true}
	if answer, err := t.agent.Post(t.url+"/renew", "", nil); err == nil {
		json.NewDecoder(answer.Body).Decode(&p) // an error has no such fields
		answer.Body.Close()
	}
	t.until.Store(sent.Add(time.Duration(p.Remaining * 1e9)))
	if p.WindingDown {
		t.stop()
	}
}

func (t *term) lead(every time.Duration, work func(*term)) {
	ended := make(chan struct{})
	t.renew()
	go func() { work(t); close(ended); t.stop() }()
	for t.working.Err() == nil {
		select {
		case <-t.working.Done():
		case <-time.After(every):
			t.renew()
		}
	}
	<-ended
	if answer, err := t.agent.Post(t.url+"/done", "", nil); err == nil {
		answer.Body.Close()
	}
	close(t.over)
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
	for lines.Scan() {
		data := told{}
		switch name, value, _ := strings.Cut(lines.Text(), ": "); {
		case name == "event":
			event = value
		case name != "data" || json.Unmarshal([]byte(value), &data) != nil:
		case event == "promoted":
			current = &term{agent: agent, url: url + "/terms/" + data.Token, token: data.Token, over: make(chan struct{})}
			current.working, current.stop = context.WithCancel(context.Background())
			go current.lead(time.Duration(data.RenewEvery*1e9), work)
		case (event == "wind_down" || event == "ended") && current.token == data.Token:
			current.stop()
		}
	}
	if current.stop != nil { // whoever closes the stream says that all work has ended
		current.stop()
		<-current.over
	}
	stream.Body.Close()
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
