// A worker that runs on one machine at a time: node worker.ts SOCKET ROLE. No dependencies.
import http from "node:http";

const [socketPath, role] = process.argv.slice(2);
const pause = (ms: number) => new Promise((done) => setTimeout(done, ms));

function request(path: string): Promise<http.IncomingMessage> {
  return new Promise((done, failed) => {
    const sent = http.request({ socketPath, path, method: "POST" }, done);
    sent.on("error", failed).end();
  });
}

async function body(answer: http.IncomingMessage): Promise<string> {
  let text = "";
  for await (const part of answer) text += part;
  return text;
}

class Term {
  readonly token: string;
  private promise = { wall: 0, monotonic: 0 };
  private windingDown = false;
  private wake = () => {};
  private readonly stopped = new Promise<void>((done) => (this.wake = done));

  constructor(token: string) {
    this.token = token;
  }

  // Whether to begin a piece of work, which has to end before the promise is over. The monotonic
  // clock stands still while the machine sleeps, so the wall clock has to agree.
  mayAct(): boolean {
    const { wall, monotonic } = this.promise;
    return !this.windingDown && Date.now() < wall && performance.now() < monotonic;
  }

  stop(): void {
    this.windingDown = true;
    this.wake();
  }

  private post(what: string) {
    return request(`/v1/roles/${role}/terms/${this.token}/${what}`);
  }

  private async renew(): Promise<boolean> {
    // The promise counts from here, not from the answer.
    const [wall, monotonic] = [Date.now(), performance.now()];
    const answer = await this.post("renew").catch(() => undefined);
    if (answer?.statusCode !== 200) return false;
    const told = JSON.parse(await body(answer));
    const left = told.remaining_seconds * 1000;
    this.promise = { wall: wall + left, monotonic: monotonic + left };
    return !told.winding_down;
  }

  async lead(every: number, work: (term: Term) => Promise<void>): Promise<void> {
    const working = ((await this.renew()) ? work(this) : Promise.resolve()).finally(() => this.stop());
    while (!this.windingDown) {
      await Promise.race([this.stopped, pause(every)]);
      if (!this.windingDown && !(await this.renew())) this.stop();
    }
    await working;
    await this.post("done").then(body, () => {});
  }
}

async function stand(work: (term: Term) => Promise<void>): Promise<void> {
  const stream = await request(`/v1/roles/${role}`);
  if (stream.statusCode !== 200) throw new Error(await body(stream));
  let [event, rest, term] = ["", "", undefined as Term | undefined];
  let leading: Promise<void> = Promise.resolve();
  // As a container's first process it would not get SIGTERM without a handler.
  process.once("SIGTERM", async () => {
    term?.stop();
    await leading;
    process.exit();
  });
  try {
    for await (const part of stream.iterator({ destroyOnReturn: false })) {
      const lines = (rest + part).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) {
        if (line.startsWith("event: ")) event = line.slice(7);
        if (!line.startsWith("data: ")) continue;
        const told = JSON.parse(line.slice(6));
        if (event === "promoted") {
          term = new Term(told.fencing_token);
          leading = term.lead(told.renew_every_seconds * 1000, work);
        } else if (["wind_down", "ended"].includes(event) && told.fencing_token === term?.token) {
          term?.stop();
        }
      }
    }
  } finally {
    term?.stop();
    await leading; // whoever closes the stream says that all work has ended
    stream.destroy();
  }
}

await stand(async (term) => {
  for (; term.mayAct(); await pause(10)) {
    console.log(JSON.stringify({ token: term.token, at: Date.now() / 1000 }));
  }
});
