//! The instances of a script, and what is done to them.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use nats_elect_testing::{NatsServer, TcpProxy};
use rustix::process::Signal;

use crate::journal::{Event, Tail};
use crate::{Fault, Kind, Moment, Node, Problem, Terms};

/// Makes the process of an instance ready to start.
type Launch = Box<dyn Fn(&Node) -> io::Result<Command>>;

/// All instances. Dropping it kills them.
pub struct Fleet {
    /// Each has a number, which is its place here.
    pub members: Vec<Member>,
    /// All that was done to them.
    pub faults: Vec<Fault>,
    folder: PathBuf,
    /// The server's address.
    upstream: String,
    launch: Launch,
}

/// One instance.
pub struct Member {
    /// Its process.
    pub node: Node,
    tail: Tail<Event>,
    /// Whether its process takes part, and knows the others.
    pub joined: bool,
    /// Whether its process can do its work: neither paused, nor cut off, nor asked to end.
    pub well: bool,
}

impl Fleet {
    /// No process runs yet. The journals and logs will be in `folder`. A process is told its name and
    /// its journal by `--instance` and `--journal`, and the server by `NATS_URL`.
    pub fn new(server: &NatsServer, folder: &Path, launch: Launch) -> Self {
        Self {
            members: Vec::new(),
            faults: Vec::new(),
            folder: folder.to_owned(),
            upstream: format!("127.0.0.1:{}", server.port()),
            launch,
        }
    }

    /// Adds an instance, whose process does not run yet. Returns its number.
    pub fn add(&mut self, name: &str) -> Result<usize, Problem> {
        let log = self.folder.join(format!("{name}.log"));
        self.members.push(Member {
            node: Node::new(name, [&*self.upstream], log)?,
            tail: Tail::new(PathBuf::new()),
            joined: false,
            well: false,
        });
        Ok(self.members.len() - 1)
    }

    /// Starts the process of an instance.
    pub fn start(&mut self, instance: usize) -> Result<(), Problem> {
        let member = &mut self.members[instance];
        let node = &mut member.node;
        let journal = format!("{}.{}.jsonl", node.name, node.process + 1);
        let journal = self.folder.join(journal);
        let mut command = (self.launch)(node)?;
        command
            .args(["--instance", &node.name])
            .arg("--journal")
            .arg(&journal)
            .env("NATS_URL", node.urls().join(","));
        node.start(&mut command)?;
        member.tail = Tail::new(journal);
        (member.joined, member.well) = (false, true);
        Ok(())
    }

    /// The names of the instances.
    pub fn names(&self) -> Vec<String> {
        let members = self.members.iter();
        members.map(|member| member.node.name.clone()).collect()
    }

    /// The instances whose processes are well and have joined.
    pub fn well(&self) -> Vec<usize> {
        let members = self.members.iter().enumerate();
        let well = members.filter(|(_, member)| member.well && member.joined);
        well.map(|(instance, _)| instance).collect()
    }

    /// Whether this is the present process of an instance, and it is well.
    pub fn is_well(&self, instance: usize, process: u32) -> bool {
        let member = &self.members[instance];
        member.well && member.node.process == process
    }

    /// Kills an instance as a power cut would, and returns when it is gone.
    pub fn kill(&mut self, instance: usize, terms: &mut Terms) -> Result<(), Problem> {
        self.begin(instance, Kind::Kill);
        self.members[instance].node.kill()?;
        self.end(instance);
        self.read(terms)
    }

    /// Has an instance stand still (`SIGSTOP`).
    pub fn pause(&mut self, instance: usize) -> Result<(), Problem> {
        self.begin(instance, Kind::Pause);
        Ok(self.members[instance].node.pause()?)
    }

    /// Has an instance go on (`SIGCONT`).
    pub fn resume(&mut self, instance: usize) -> Result<(), Problem> {
        self.members[instance].node.signal(Signal::CONT)?;
        self.members[instance].well = true;
        self.end(instance);
        Ok(())
    }

    /// Lets nothing through between an instance and NATS, and closes nothing.
    pub fn cut(&mut self, instance: usize) {
        self.begin(instance, Kind::Cut);
        let proxies = &self.members[instance].node.proxies;
        proxies.iter().for_each(TcpProxy::black_hole);
    }

    /// Lets everything through again, also what was sent meanwhile.
    pub fn restore(&mut self, instance: usize) {
        let member = &mut self.members[instance];
        member.node.proxies.iter().for_each(TcpProxy::restore);
        member.well = true;
        self.end(instance);
    }

    /// Asks an instance to give away what it owns and to end (`SIGTERM`).
    pub fn drain(&mut self, instance: usize) -> Result<(), Problem> {
        self.begin(instance, Kind::Drain);
        self.members[instance].node.signal(Signal::TERM)?;
        Ok(())
    }

    /// Returns how an instance ended, once it has.
    pub fn exited(&mut self, instance: usize) -> io::Result<Option<ExitStatus>> {
        let exited = self.members[instance].node.exited()?;
        if exited.is_some() {
            self.end(instance);
        }
        Ok(exited)
    }

    /// The instances that were killed, and when.
    pub fn kills(&self) -> Vec<(usize, Moment)> {
        let kills = self.faults.iter().filter(|fault| fault.kind == Kind::Kill);
        kills.map(|fault| (fault.instance, fault.from)).collect()
    }

    /// Reads the journals on.
    pub fn read(&mut self, terms: &mut Terms) -> Result<(), Problem> {
        for (instance, member) in self.members.iter_mut().enumerate() {
            for line in member.tail.read()? {
                member.joined |= line.what == Event::Joined;
                terms.take(instance, member.node.process, &line);
            }
        }
        Ok(())
    }

    fn begin(&mut self, instance: usize, kind: Kind) {
        let member = &mut self.members[instance];
        member.well = false;
        self.faults.push(Fault {
            kind,
            instance,
            process: member.node.process,
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
}
