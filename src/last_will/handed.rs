//! A file that goes to the companion, beside the first byte of what it is told.

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

/// Sends the first byte, with the file if there is one.
pub(super) fn hand_over(socket: impl AsFd, file: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = file.map(|file| [file]);
    if let Some(files) = &files {
        control.push(SendAncillaryMessage::ScmRights(files));
    }
    sendmsg(socket, &[IoSlice::new(&[FIRST])], &mut control, NO_SIGNAL)?;
    Ok(())
}

/// Receives the first byte, and the file that came with it.
pub(super) fn receive(socket: impl AsFd) -> io::Result<Option<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut bytes = [IoSliceMut::new(&mut byte)];
    let received = recvmsg(socket, &mut bytes, &mut control, RecvFlags::empty())?;
    if received.bytes != 1 || byte != [FIRST] {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    }))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_file_comes_with_the_first_byte_and_the_rest_after_it() {
        let (mut ours, mut theirs) = UnixStream::pair().expect("a pair");
        let (ends, mut write) = io::pipe().expect("a pipe");
        hand_over(&ours, Some(ends.as_fd())).expect("room");
        ours.write_all(b"setup").expect("room");
        drop((ours, ends));
        let file = receive(&theirs).expect("a byte").expect("a file");
        write.write_all(b"role").expect("a reader");
        drop(write);
        let (mut through, mut told) = (String::new(), String::new());
        std::fs::File::from(file)
            .read_to_string(&mut through)
            .expect("the other end");
        theirs.read_to_string(&mut told).expect("the rest");
        assert_eq!((through.as_str(), told.as_str()), ("role", "setup"));
    }

    #[test]
    fn without_a_file_there_is_the_byte_alone() {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        hand_over(&ours, None).expect("room");
        assert!(receive(&theirs).expect("a byte").is_none());
        drop(ours);
        receive(&theirs).expect_err("the end");
    }
}
