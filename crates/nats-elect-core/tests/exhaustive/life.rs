//! Processes die, start, and lose their connection.

use std::sync::Arc;

use nats_elect_core::{Input, Link};

use crate::fault::Fault;
use crate::instance::{Process, Progress};
use crate::turn::Turn;

impl Turn<'_> {
    pub fn crash(&mut self, index: usize) {
        self.spend(Fault::Crash);
        let instance = Arc::make_mut(&mut self.state.instances[index]);
        instance.life += 1;
        let process = instance.process.take().expect("only live ones die");
        let bequest = process.election.bequest();
        self.abandon_request(process.request);
        if let Some(bequest) = bequest.filter(|_| self.configuration.companions) {
            self.mourn(bequest);
        }
    }

    /// The process starts, and finds its connection and bucket at once.
    pub fn start(&mut self, index: usize) {
        let instance = Arc::make_mut(&mut self.state.instances[index]);
        let candidate = instance.candidate(index, self.configuration);
        instance.process = Some(Process::new(candidate));
        self.link(index);
    }

    pub fn link(&mut self, index: usize) {
        let made = self.state.bucket.made;
        let role = self.state.bucket.role().cloned();
        let watched = self.configuration.watch;
        let process = self.process(index);
        process.linked = true;
        process.lost_at = None;
        if watched {
            process.watch.extend(role.map(|entry| (entry, 0)));
        }
        self.input(index, Input::Link(Link::Up(made)));
    }

    pub fn tell_grace_over(&mut self, index: usize) {
        if let Some(since) = self.process(index).grace_over {
            self.input(index, Input::GraceOver { since });
        }
    }

    pub fn cut(&mut self, index: usize) {
        self.spend(Fault::Cut);
        let graced = self.configuration.settings.grace.is_some();
        let process = self.process(index);
        process.linked = false;
        // Without a grace period it decides nothing.
        process.lost_at = graced.then_some(process.clock);
        process.watch.clear();
        let request = process.request.as_mut().map(|request| {
            let before = request.clone();
            request.progress = Progress::Gone;
            before
        });
        self.abandon_request(request);
        let since = self.process(index).clock;
        self.input(index, Input::Link(Link::Down { since }));
    }
}
