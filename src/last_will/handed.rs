//! Files that go to the companion, beside the first byte of what it is told.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// The end of an empty line.
const FIRST: u8 = b'\n';

/// The application may have given SIGPIPE its deadly meaning back.
#[cfg(not(target_vendor = "apple"))]
pub(super) const NO_SIGNAL: SendFlags = SendFlags::NOSIGNAL;
#[cfg(target_vendor = "apple")]
pub(super) const NO_SIGNAL: SendFlags = SendFlags::empty();

#[cfg(target_os = "linux")]
const CLOSED_ON_EXEC: RecvFlags = RecvFlags::CMSG_CLOEXEC;
#[cfg(not(target_os = "linux"))]
const CLOSED_ON_EXEC: RecvFlags = RecvFlags::empty();

/// Sends the first byte, with the files: the pipe that is closed when nobody has the parent's memory
/// any more, and the one through which the end of a term's work is told.
pub(super) fn hand_over(
    socket: impl AsFd,
    life: BorrowedFd<'_>,
    ends: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files: Vec<_> = [life].into_iter().chain(ends).collect();
    control.push(SendAncillaryMessage::ScmRights(&files));
    sendmsg(socket, &[IoSlice::new(&[FIRST])], &mut control, NO_SIGNAL)?;
    Ok(())
}

/// Receives the first byte, and the files that came with it.
pub(super) fn receive(socket: impl AsFd) -> io::Result<(OwnedFd, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut bytes = [IoSliceMut::new(&mut byte)];
    let received = recvmsg(socket, &mut bytes, &mut control, CLOSED_ON_EXEC)?;
    let mut files = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    let mut files = files.next().into_iter().flatten();
    match files.next() {
        Some(life) if received.bytes == 1 && byte == [FIRST] => Ok((life, files.next())),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn files_come_with_the_first_byte_and_the_rest_after_it() {
        for has_ends in [false, true] {
            let (mut ours, mut theirs) = UnixStream::pair().expect("a pair");
            let (life, held) = io::pipe().expect("a pipe");
            let (ends, mut write) = io::pipe().expect("a pipe");
            let handed = has_ends.then(|| ends.as_fd());
            hand_over(&ours, life.as_fd(), handed).expect("room");
            ours.write_all(b"setup").expect("room");
            drop((ours, ends, life));
            let (life, ends) = receive(&theirs).expect("files");
            let mut told = String::new();
            theirs.read_to_string(&mut told).expect("the rest");
            assert_eq!(told, "setup");
            drop(held);
            assert_eq!(all_of(life), "");
            assert_eq!(ends.is_some(), has_ends);
            if let Some(ends) = ends {
                write.write_all(b"role").expect("a reader");
                drop(write);
                assert_eq!(all_of(ends), "role");
            }
        }
    }

    fn all_of(file: OwnedFd) -> String {
        let mut text = String::new();
        std::fs::File::from(file)
            .read_to_string(&mut text)
            .expect("its other end is closed");
        text
    }

    #[test]
    fn without_files_there_is_no_parent_of_this_version() {
        let (mut ours, theirs) = UnixStream::pair().expect("a pair");
        ours.write_all(b"\n{}").expect("room");
        receive(&theirs).expect_err("no files");
        drop(ours);
        receive(&theirs).expect_err("the end");
    }
}
