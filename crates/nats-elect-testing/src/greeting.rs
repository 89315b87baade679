//! The greeting of a nats-server of some version, without a server behind it.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

/// Starts a listener that greets as a server of this version does, and answers pings. Returns its
/// address.
///
/// The greeting was recorded from real servers. The listener serves until the process ends.
///
/// # Panics
///
/// Panics if no port is free on loopback.
pub fn old_server(version: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            thread::spawn(move || serve(&connection, version));
        }
    });
    format!("nats://{address}")
}

fn serve(mut connection: &TcpStream, version: &str) {
    let info = format!(
        "INFO {{\"server_id\":\"ND4DLSE53EHFHKK5BFJL2VTQBLXUVOWRZMRRHVCZFMKMGL2HLUJ5RJQB\",\"server_name\":\"old\",\"version\":{version:?},\
         \"proto\":1,\"go\":\"go1.23.7\",\"host\":\"127.0.0.1\",\"port\":4222,\"headers\":true,\"max_payload\":1048576,\"jetstream\":true,\
         \"client_id\":5,\"client_ip\":\"127.0.0.1\"}}\r\n"
    );
    let _ = connection.write_all(info.as_bytes());
    for line in BufReader::new(connection).lines().map_while(Result::ok) {
        if line == "PING" {
            let _ = connection.write_all(b"PONG\r\n");
        }
    }
}
