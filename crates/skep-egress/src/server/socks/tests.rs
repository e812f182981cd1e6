//! Proxies that do as they should, and others.

use std::time::Duration;

use proptest::prelude::*;
use tokio::io::duplex;

use super::*;

const LOGIN: Login<'static> = Login {
    username: "user",
    password: "hunter2",
};
/// An answer that grants everything, and the address that nobody needs.
const OPEN: &[u8] = &[5, 0, 5, 0, 0, 1, 9, 9, 9, 9, 0, 80];

/// A client with a proxy that says these bytes whatever it hears, and then hangs up or says nothing;
/// with what the client has said, and what it has left of the bytes.
async fn meet(
    login: Option<Login<'_>>,
    target: Target<'_>,
    answers: &[u8],
    hangs_up: bool,
) -> (Option<Result<(), Fault>>, Vec<u8>, Vec<u8>) {
    let (mut client, mut proxy) = duplex(4096);
    proxy.write_all(answers).await.unwrap();
    if hangs_up {
        proxy.shutdown().await.unwrap();
    }
    let connecting = connect(&mut client, login, target, 443);
    let met = tokio::time::timeout(Duration::from_secs(1), connecting).await;
    proxy.shutdown().await.unwrap();
    let mut left = Vec::new();
    client.read_to_end(&mut left).await.unwrap();
    drop(client);
    let mut said = Vec::new();
    proxy.read_to_end(&mut said).await.unwrap();
    (met.ok(), said, left)
}

fn host(name: &str) -> HostName {
    name.parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_proxy_is_told_the_host_and_what_it_sends_after_its_answer_is_the_hosts() {
    let name = host("a.test");
    let answers = [OPEN, b"220 hello"].concat();
    let (met, said, left) = meet(None, Target::Name(&name), &answers, false).await;
    assert_eq!(met, Some(Ok(())));
    assert_eq!(said, b"\x05\x01\x00\x05\x01\x00\x03\x06a.test\x01\xbb");
    assert_eq!(left, b"220 hello");
    let address = Target::Address(Ipv4Addr::new(9, 8, 7, 6));
    let (_, said, _) = meet(None, address, OPEN, false).await;
    assert_eq!(
        said,
        b"\x05\x01\x00\x05\x01\x00\x01\x09\x08\x07\x06\x01\xbb"
    );
    // Other forms of the address that nobody needs.
    let by_name = [&[5, 0, 5, 0, 0, 3, 255][..], &[b'x'; 257], b"!"].concat();
    let by_ipv6 = [&[5, 0, 5, 0, 0, 4][..], &[0; 18], b"!"].concat();
    for answers in [by_name, by_ipv6] {
        let (met, _, left) = meet(None, address, &answers, true).await;
        assert_eq!((met, left.as_slice()), (Some(Ok(())), &b"!"[..]));
    }
}

#[tokio::test(start_paused = true)]
async fn a_proxy_hears_the_password_only_if_it_asks_for_it() {
    let address = Target::Address(Ipv4Addr::new(9, 8, 7, 6));
    let asks = [&[5, 2, 1, 0][..], &OPEN[2..]].concat();
    let (met, said, _) = meet(Some(LOGIN), address, &asks, false).await;
    assert_eq!(met, Some(Ok(())));
    assert!(said.starts_with(b"\x05\x02\x00\x02\x01\x04user\x07hunter2\x05\x01\x00"));
    let (met, said, _) = meet(Some(LOGIN), address, OPEN, false).await;
    assert_eq!(met, Some(Ok(())));
    assert!(!said.windows(7).any(|part| part == b"hunter2"));
    let (met, said, _) = meet(Some(LOGIN), address, &[5, 2, 1, 7], false).await;
    assert_eq!(met, Some(Err(Fault::Login)));
    assert!(said.ends_with(b"hunter2"), "nothing more is asked for");
    // One that wants what was not offered gets nothing.
    let (met, said, _) = meet(None, address, &[5, 2, 1, 0], false).await;
    assert_eq!(met, Some(Err(Fault::NotUnderstood)));
    assert_eq!(said, [5, 1, 0]);
    let (met, _, _) = meet(None, address, &[5, 0xff], false).await;
    assert_eq!(met, Some(Err(Fault::Login)));
}

#[tokio::test(start_paused = true)]
async fn a_proxy_that_refuses_or_says_something_else_leads_nowhere() {
    let address = Target::Address(Ipv4Addr::new(9, 8, 7, 6));
    for (answers, fault) in [
        (&[5, 0, 5, 2, 0, 1][..], Fault::NotAllowed),
        (&[5, 0, 5, 1, 0, 1], Fault::NotReached),
        (&[5, 0, 5, 4, 0, 1], Fault::NotReached),
        (&[5, 0, 5, 8, 0, 9], Fault::NotReached),
        (&[5, 0, 5, 9, 0, 1], Fault::NotUnderstood),
        (&[5, 0, 4, 0, 0, 1], Fault::NotUnderstood),
        (&[5, 0, 5, 0, 0, 2], Fault::NotUnderstood),
        (&[4, 0], Fault::NotUnderstood),
        (&[5, 1], Fault::NotUnderstood),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", Fault::NotUnderstood),
        (b"SSH-2.0-x\r\n", Fault::NotUnderstood),
    ] {
        let (met, _, _) = meet(None, address, answers, false).await;
        assert_eq!(met, Some(Err(fault)), "{answers:?}");
    }
    let (met, _, _) = meet(Some(LOGIN), address, &[5, 2, 5, 0], false).await;
    assert_eq!(met, Some(Err(Fault::NotUnderstood)));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_cut_anywhere_is_none() {
    let name = host("a.test");
    let whole = [&[5, 2, 1, 0, 5, 0, 0, 3, 200][..], &[b'x'; 202]].concat();
    for length in 0..whole.len() {
        let cut = &whole[..length];
        let (met, _, _) = meet(Some(LOGIN), Target::Name(&name), cut, true).await;
        assert_eq!(met, Some(Err(Fault::BrokenOff)), "{length}");
        // Whoever waits for the rest waits until somebody ends that.
        let (met, _, _) = meet(Some(LOGIN), Target::Name(&name), cut, false).await;
        assert_eq!(met, None, "{length}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_longest_name_and_words_fit() {
    let label = "x".repeat(63);
    let longest = format!("{label}.{label}.{label}.{}", "y".repeat(61));
    let name = host(&longest);
    let word = "w".repeat(255);
    let login = Login {
        username: &word,
        password: &word,
    };
    let asks = [&[5, 2, 1, 0][..], &OPEN[2..]].concat();
    let (met, said, _) = meet(Some(login), Target::Name(&name), &asks, false).await;
    assert_eq!(met, Some(Ok(())));
    assert_eq!(said.len(), 4 + 3 + 2 * 255 + 5 + 253 + 2);
}

proptest! {
    #[test]
    fn whatever_a_proxy_says_no_more_is_taken_than_one_answer(
        answers in proptest::collection::vec(prop_oneof![Just(5u8), Just(0), Just(1), any::<u8>()], 0..600),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let address = Target::Address(Ipv4Addr::new(9, 8, 7, 6));
        let meeting = meet(Some(LOGIN), address, &answers, true);
        let (met, said, left) = runtime.block_on(meeting);
        prop_assert!(met.is_some());
        prop_assert!(said.len() < 64);
        prop_assert!(answers.len() - left.len() <= 2 + 2 + 5 + 257);
    }
}
