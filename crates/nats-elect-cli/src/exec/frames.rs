//! What `exec` and its guard tell each other: numbers of eight bytes, over a socket.
//!
//! `exec` sends one number, over and over: when the command is to be killed. The first comes with
//! files: what tells the companion of the command's end, if there is one, and the command's standard
//! input. The second says that `exec` knows the command's group, and that it
//! may run. The guard answers with two: the group, and how the command ended.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::task::Poll;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use tokio::io::Interest;

const SIZE: usize = size_of::<u64>();
/// As many files come with the first number at most.
const FILES: usize = 2;

/// One end of the socket, on a runtime.
#[derive(Debug)]
pub struct Frames {
    socket: UnixStream,
    /// The same one, for a runtime to tell when there is something to read.
    watched: tokio::net::UnixStream,
    partial: Vec<u8>,
}

impl Frames {
    pub fn new(socket: UnixStream) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self {
            watched: tokio::net::UnixStream::from_std(socket.try_clone()?)?,
            socket,
            partial: Vec::with_capacity(SIZE),
        })
    }

    /// The next number; nothing at the end, or where the other side is lost. Nothing is lost by
    /// dropping the future.
    pub async fn receive(&mut self) -> Option<u64> {
        loop {
            if let Poll::Ready(received) = self.receive_now() {
                return received;
            }
            // The runtime may still believe in what has just been read.
            let nothing = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
            let _ = self.watched.try_io(Interest::READABLE, nothing);
            self.watched.readable().await.ok()?;
        }
    }

    /// As `receive`, without waiting for anything. A runtime that was paused would notice later.
    pub fn receive_now(&mut self) -> Poll<Option<u64>> {
        loop {
            if let Ok(frame) = <[u8; SIZE]>::try_from(self.partial.as_slice()) {
                self.partial.clear();
                return Poll::Ready(Some(u64::from_le_bytes(frame)));
            }
            let mut bytes = [0; SIZE];
            let missing = SIZE - self.partial.len();
            match (&self.socket).read(&mut bytes[..missing]) {
                Ok(0) => return Poll::Ready(None),
                Ok(read) => self.partial.extend(&bytes[..read]),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return Poll::Pending,
                    io::ErrorKind::Interrupted => {}
                    _ => return Poll::Ready(None),
                },
            }
        }
    }

    /// Sends a number without waiting. False if the other side is gone, or has not read for long.
    pub fn send(&self, number: u64) -> bool {
        (&self.socket)
            .write(&number.to_le_bytes())
            .is_ok_and(|written| written == SIZE)
    }
}

/// Sends the first number, with files to hand over.
pub fn send_first(socket: &UnixStream, number: u64, files: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(files));
    }
    let bytes = number.to_le_bytes();
    let sent = sendmsg(
        socket,
        &[IoSlice::new(&bytes)],
        &mut control,
        SendFlags::empty(),
    )?;
    (sent == SIZE)
        .then_some(())
        .ok_or_else(|| io::Error::other("the guard's socket is full"))
}

/// Receives the first number and the files that came with it.
pub fn receive_first(socket: &UnixStream) -> io::Result<(u64, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [0; SIZE];
    let received = recvmsg(
        socket.as_fd(),
        &mut [IoSliceMut::new(&mut bytes)],
        &mut control,
        CLOSED_ON_EXEC,
    )?;
    if received.bytes != SIZE {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let files = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    Ok((u64::from_le_bytes(bytes), files.flatten().collect()))
}

#[cfg(target_os = "linux")]
const CLOSED_ON_EXEC: RecvFlags = RecvFlags::CMSG_CLOEXEC;
#[cfg(not(target_os = "linux"))]
const CLOSED_ON_EXEC: RecvFlags = RecvFlags::empty();
