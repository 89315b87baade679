//! The command in a terminal of its own.

use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use nats_elect_testing::eventually;
use portable_pty::{Child, CommandBuilder, PtyPair, PtySize, native_pty_system};
use rustix::process::{Pid, Signal, kill_process};

use crate::fleet::SOON;

/// A terminal in which the command runs. Dropping it ends both.
pub struct Terminal {
    pair: PtyPair,
    keys: Box<dyn Write + Send>,
    child: Box<dyn Child + Send + Sync>,
    parser: Arc<Mutex<vt100::Parser>>,
    /// How the terminal is set before the command runs.
    before: String,
}

impl Terminal {
    /// Runs the command in a terminal of so many lines and columns.
    pub fn run((rows, cols): (u16, u16), arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let size = PtySize {
            rows,
            cols,
            ..PtySize::default()
        };
        let pair = native_pty_system().openpty(size).expect("a terminal");
        let before = settings(&pair);
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_nats-elect"));
        command.env_clear();
        command.env("TERM", "xterm-256color");
        command.env("XDG_CONFIG_HOME", "/nonexistent");
        for (name, value) in environment {
            command.env(name, value);
        }
        command.args(arguments);
        let child = pair.slave.spawn_command(command).expect("start");
        let mut output = pair.master.try_clone_reader().expect("a reader");
        let keys = pair.master.take_writer().expect("a writer");
        let parser = Arc::new(Mutex::new(vt100::Parser::new(cells(rows), cells(cols), 0)));
        let shown = Arc::clone(&parser);
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(read @ 1..) = output.read(&mut bytes) {
                lock(&shown).process(&bytes[..read]);
            }
        });
        Self {
            pair,
            keys,
            child,
            parser,
            before,
        }
    }

    /// Returns the screen, as soon as all of this is in it.
    pub async fn shows(&self, wanted: &[&str]) -> String {
        let wanted: Vec<_> = wanted.iter().map(|text| (*text, true)).collect();
        self.shows_or_not(&wanted).await
    }

    /// Returns the screen, as soon as each of these texts is in it or not, as is wanted.
    pub async fn shows_or_not(&self, wanted: &[(&str, bool)]) -> String {
        let all = |text: &str| {
            wanted
                .iter()
                .all(|(part, shown)| text.contains(part) == *shown)
        };
        let within = tokio::time::timeout(SOON, async {
            eventually(SOON * 2, "it", async || {
                let text = self.text();
                all(&text).then_some(text)
            })
            .await
        });
        let shown = within.await;
        shown.unwrap_or_else(|_| panic!("no {wanted:?} in\n{}", self.text()))
    }

    pub fn text(&self) -> String {
        lock(&self.parser).screen().contents()
    }

    /// What is on the screen, cell by cell.
    pub fn screen(&self) -> vt100::Screen {
        lock(&self.parser).screen().clone()
    }

    pub fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("write");
        self.keys.flush().expect("flush");
    }

    pub fn resize(&self, rows: u16, cols: u16) {
        lock(&self.parser)
            .screen_mut()
            .set_size(cells(rows), cells(cols));
        let size = PtySize {
            rows,
            cols,
            ..PtySize::default()
        };
        self.pair.master.resize(size).expect("a size");
    }

    pub fn signal(&self, signal: Signal) {
        let id = self.child.process_id().expect("it runs");
        let id = i32::try_from(id).ok().and_then(Pid::from_raw);
        kill_process(id.expect("a process"), signal).expect("a signal");
    }

    /// The exit code, once it has ended.
    pub async fn ended(&mut self) -> u32 {
        let child = Mutex::new(&mut self.child);
        eventually(SOON, "the end of the command", async || {
            let mut child = child.lock().unwrap_or_else(PoisonError::into_inner);
            child.try_wait().expect("a status")
        })
        .await
        .exit_code()
    }

    /// Ends it by its key.
    pub async fn quit(&mut self) {
        self.press("q");
        assert_eq!(self.ended().await, 0);
    }

    /// Whether it has the terminal to itself.
    pub fn is_screen(&self) -> bool {
        let parser = lock(&self.parser);
        let screen = parser.screen();
        screen.alternate_screen() && screen.hide_cursor() && settings(&self.pair) != self.before
    }

    /// The command has left nothing behind: no screen, no hidden cursor, no changed settings.
    pub async fn is_as_before(&self) {
        eventually(SOON, "the terminal as it was", async || {
            let parser = lock(&self.parser);
            let screen = parser.screen();
            let same = settings(&self.pair) == self.before;
            (same && !screen.alternate_screen() && !screen.hide_cursor()).then_some(())
        })
        .await;
    }

    pub fn is_coloured(&self) -> bool {
        let screen = self.screen();
        let (rows, cols) = (screen.size().0.get(), screen.size().1.get());
        let mut cells = (0..rows).flat_map(|row| (0..cols).map(move |col| (row, col)));
        cells.any(|(row, col)| {
            let cell = screen.cell(row, col);
            cell.is_some_and(|cell| cell.fgcolor() != vt100::Color::Default)
        })
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How the terminal treats what is typed and written.
fn settings(pair: &PtyPair) -> String {
    format!("{:?}", pair.master.get_termios())
}

fn cells(count: u16) -> NonZeroU16 {
    NonZeroU16::new(count).expect("a size")
}

fn lock(parser: &Mutex<vt100::Parser>) -> MutexGuard<'_, vt100::Parser> {
    parser.lock().unwrap_or_else(PoisonError::into_inner)
}
