//! The processes of the instances, and the network between them and NATS.

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use nats_elect::BoxError;
use nats_elect::duration::exact;
use nats_elect_testing::{NatsServer, TcpProxy};
use rustix::process::{Pid, Signal, kill_process};

use crate::args::Args;
use crate::clock::Moment;
use crate::fault::{Fault, Kind};
use crate::journal::{Event, Tail};
use crate::terms::Terms;

/// All instances. Dropping it kills them.
pub struct Fleet {
    pub nodes: Vec<Node>,
    /// All that was done to them.
    pub faults: Vec<Fault>,
    folder: PathBuf,
    /// The server's address.
    upstream: String,
    /// The arguments of each process.
    arguments: Vec<String>,
    /// The program of each instance's first process.
    first: PathBuf,
}

/// One instance: its way to NATS, and its process while it lives.
pub struct Node {
    pub name: String,
    proxy: TcpProxy,
    /// How many processes it has had.
    pub process: u32,
    child: Option<Child>,
    tail: Tail,
    /// Whether its process takes part in the group.
    pub joined: bool,
    /// Whether its process can do its work: neither paused, nor cut off, nor asked to end.
    pub well: bool,
}

impl Fleet {
    /// No process runs yet. The journals will be in `folder`.
    pub fn new(args: &Args, server: &NatsServer, folder: &Path) -> io::Result<Self> {
        let text = |duration| exact(duration).to_string();
        let arguments = [
            ["--shards".to_owned(), args.shards.to_string()],
            ["--ttl".to_owned(), text(args.ttl)],
            ["--pace".to_owned(), text(args.pace)],
        ];
        let first = args.earlier.clone();
        Ok(Self {
            nodes: Vec::new(),
            faults: Vec::new(),
            folder: folder.to_owned(),
            upstream: format!("127.0.0.1:{}", server.port()),
            arguments: arguments.into_iter().flatten().collect(),
            first: first.map_or_else(std::env::current_exe, Ok)?,
        })
    }

    /// Adds an instance, whose process does not run yet. Returns its number.
    pub fn add(&mut self) -> Result<usize, BoxError> {
        self.nodes.push(Node {
            name: format!("i{}", self.nodes.len() + 1),
            proxy: TcpProxy::start(&*self.upstream)?,
            process: 0,
            child: None,
            tail: Tail::new(PathBuf::new()),
            joined: false,
            well: false,
        });
        Ok(self.nodes.len() - 1)
    }

    /// Starts the process of an instance.
    pub fn start(&mut self, instance: usize) -> Result<(), BoxError> {
        let node = &mut self.nodes[instance];
        node.process += 1;
        let name = format!("{}.{}", node.name, node.process);
        let journal = self.folder.join(format!("{name}.jsonl"));
        let log = File::create(self.folder.join(format!("{name}.log")))?;
        let program = match node.process {
            1 => self.first.clone(),
            _ => std::env::current_exe()?,
        };
        let child = Command::new(program)
            .args(["--instance", &node.name])
            .arg("--journal")
            .arg(&journal)
            .args(&self.arguments)
            .env("NATS_URL", node.proxy.url())
            // Only this process holds it open. Its end tells the child to end, too.
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log)
            // Ctrl-C is for this process.
            .process_group(0)
            .spawn()?;
        node.child = Some(child);
        node.tail = Tail::new(journal);
        (node.joined, node.well) = (false, true);
        Ok(())
    }

    /// The instances whose processes are well and take part in the group.
    pub fn well(&self) -> Vec<usize> {
        let nodes = self.nodes.iter().enumerate();
        let well = nodes.filter(|(_, node)| node.well && node.joined);
        well.map(|(instance, _)| instance).collect()
    }

    /// Whether this is the present process of an instance, and it is well.
    pub fn is_well(&self, instance: usize, process: u32) -> bool {
        let node = &self.nodes[instance];
        node.well && node.process == process
    }

    /// Kills an instance as a power cut would, and returns when it is gone.
    pub fn kill(&mut self, instance: usize, terms: &mut Terms) -> Result<(), BoxError> {
        self.begin(instance, Kind::Kill);
        let node = &mut self.nodes[instance];
        let mut child = node.child.take().ok_or("it does not run")?;
        child.kill()?;
        child.wait()?;
        self.end(instance);
        self.read(terms)
    }

    /// Has an instance stand still (`SIGSTOP`).
    pub fn pause(&mut self, instance: usize) -> Result<(), BoxError> {
        self.begin(instance, Kind::Pause);
        self.signal(instance, Signal::STOP)
    }

    /// Has an instance go on (`SIGCONT`).
    pub fn resume(&mut self, instance: usize) -> Result<(), BoxError> {
        self.signal(instance, Signal::CONT)?;
        self.nodes[instance].well = true;
        self.end(instance);
        Ok(())
    }

    /// Lets nothing through between an instance and NATS, and closes nothing.
    pub fn cut(&mut self, instance: usize) {
        self.begin(instance, Kind::Cut);
        self.nodes[instance].proxy.black_hole();
    }

    /// Lets everything through again, also what was sent meanwhile.
    pub fn restore(&mut self, instance: usize) {
        self.nodes[instance].proxy.restore();
        self.nodes[instance].well = true;
        self.end(instance);
    }

    /// Asks an instance to give its shards away and end (`SIGTERM`).
    pub fn drain(&mut self, instance: usize) -> Result<(), BoxError> {
        self.begin(instance, Kind::Drain);
        self.signal(instance, Signal::TERM)
    }

    /// Returns how an instance ended, once it has.
    pub fn exited(&mut self, instance: usize) -> io::Result<Option<ExitStatus>> {
        let Some(child) = &mut self.nodes[instance].child else {
            return Ok(None);
        };
        let Some(status) = child.try_wait()? else {
            return Ok(None);
        };
        self.nodes[instance].child = None;
        self.end(instance);
        Ok(Some(status))
    }

    /// Whether an instance has a process.
    pub fn runs(&self, instance: usize) -> bool {
        self.nodes[instance].child.is_some()
    }

    /// The instances that were killed, and when.
    pub fn kills(&self) -> Vec<(usize, Moment)> {
        let kills = self.faults.iter().filter(|fault| fault.kind == Kind::Kill);
        kills.map(|fault| (fault.instance, fault.from)).collect()
    }

    /// Reads the journals on.
    pub fn read(&mut self, terms: &mut Terms) -> Result<(), BoxError> {
        for (instance, node) in self.nodes.iter_mut().enumerate() {
            for line in node.tail.read()? {
                node.joined |= line.event == Event::Joined;
                terms.take(instance, node.process, line);
            }
        }
        Ok(())
    }

    fn begin(&mut self, instance: usize, kind: Kind) {
        let node = &mut self.nodes[instance];
        node.well = false;
        self.faults.push(Fault {
            kind,
            instance,
            process: node.process,
            from: Moment::now(),
            until: None,
        });
    }

    /// Ends what was done to an instance last.
    fn end(&mut self, instance: usize) {
        let faults = self.faults.iter_mut().rev();
        let mut of_it = faults.filter(|fault| fault.instance == instance);
        if let Some(fault) = of_it.next() {
            fault.until.get_or_insert(Moment::now());
        }
    }

    fn signal(&self, instance: usize, signal: Signal) -> Result<(), BoxError> {
        let child = self.nodes[instance].child.as_ref();
        let child = child.ok_or("it does not run")?;
        Ok(kill_process(Pid::from_child(child), signal)?)
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for child in self.nodes.iter_mut().filter_map(|node| node.child.as_mut()) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
