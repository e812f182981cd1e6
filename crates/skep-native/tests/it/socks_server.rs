//! A SOCKS5 proxy of the world outside. It writes down what it is asked, for whoever asks it that.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use parking_lot::Mutex;

/// Port at which it lets everybody in who names this user and password, or none.
pub(crate) const SOCKS: u16 = 1080;
/// Port at which it tells what it was asked.
const LOG: u16 = 1081;
/// Port at which it refuses everything.
pub(crate) const REFUSING: u16 = 1082;
/// Port at which somebody listens and says nothing.
pub(crate) const SILENT: u16 = 1083;

/// A name that only the proxy knows the address of, which is its own.
pub(crate) const INNER: &str = "inner.test";

pub(crate) const USER: &str = "somebody";

/// Password of that user. It is put together here, so that it stands in no executable.
pub(crate) fn password() -> String {
    "yxorp-eht-fo-2retnuh".chars().rev().collect()
}

type Asked = Arc<Mutex<String>>;

/// Serves, where nobody else does.
pub(crate) fn serve() {
    let bind = |port| TcpListener::bind(("0.0.0.0", port));
    let (Ok(socks), Ok(log), Ok(refusing), Ok(silent)) =
        (bind(SOCKS), bind(LOG), bind(REFUSING), bind(SILENT))
    else {
        return;
    };
    let asked = Asked::default();
    let told = Arc::clone(&asked);
    std::thread::spawn(move || {
        for stream in log.incoming() {
            let text = told.lock().clone();
            stream.unwrap().write_all(text.as_bytes()).ok();
        }
    });
    std::thread::spawn(move || {
        let kept: Vec<_> = silent.incoming().collect();
        drop(kept);
    });
    for (listener, verdict) in [(socks, 0), (refusing, 2)] {
        let asked = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, asked) = (stream.unwrap(), Arc::clone(&asked));
                std::thread::spawn(move || lead(stream, &asked, verdict).ok());
            }
        });
    }
}

fn lead(mut client: TcpStream, asked: &Asked, verdict: u8) -> std::io::Result<()> {
    let [_, count] = read(&mut client)?;
    let mut methods = vec![0; usize::from(count)];
    client.read_exact(&mut methods)?;
    let mut user = "nobody".to_owned();
    if methods.contains(&2) {
        client.write_all(&[5, 2])?;
        let [_] = read(&mut client)?;
        user = text(&mut client)?;
        let is_right = user == USER && text(&mut client)? == password();
        client.write_all(&[1, u8::from(!is_right)])?;
        if !is_right {
            return Ok(());
        }
    } else {
        client.write_all(&[5, 0])?;
    }
    let [_, _, _, kind] = read(&mut client)?;
    let (host, address) = if kind == 1 {
        let address = Ipv4Addr::from(read::<4>(&mut client)?);
        (address.to_string(), address)
    } else {
        (text(&mut client)?, Ipv4Addr::LOCALHOST)
    };
    let port = u16::from_be_bytes(read(&mut client)?);
    asked.lock().push_str(&format!("{user} {host}:{port}\n"));
    client.write_all(&[5, verdict, 0, 1, 0, 0, 0, 0, 0, 0])?;
    if verdict != 0 {
        return Ok(());
    }
    let host = TcpStream::connect(SocketAddr::from((address, port)))?;
    let (mut from, mut to) = (client.try_clone()?, host.try_clone()?);
    std::thread::spawn(move || {
        std::io::copy(&mut from, &mut to).ok();
        to.shutdown(std::net::Shutdown::Write).ok();
    });
    std::io::copy(&mut &host, &mut client)?;
    client.shutdown(std::net::Shutdown::Write)
}

fn read<const LENGTH: usize>(stream: &mut TcpStream) -> std::io::Result<[u8; LENGTH]> {
    let mut bytes = [0; LENGTH];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn text(stream: &mut TcpStream) -> std::io::Result<String> {
    let [length] = read(stream)?;
    let mut bytes = vec![0; usize::from(length)];
    stream.read_exact(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Everything that the proxy at an address was asked so far: who asked, and for what.
pub(crate) fn asked_at(address: Ipv4Addr) -> Vec<String> {
    let mut stream = TcpStream::connect((address, LOG)).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text.lines().map(str::to_owned).collect()
}
