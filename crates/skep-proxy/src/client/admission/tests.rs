use super::*;

fn admission(change: impl FnOnce(&mut ProxyConfig)) -> Arc<Admission> {
    let mut config = ProxyConfig::new("skep.test");
    change(&mut config);
    Arc::new(Admission::new(&config))
}

fn peer(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

/// A connection begins to serve a request that shows nothing.
fn anonymous_request(permit: &ConnectionPermit) -> RequestClass {
    permit.arrive(false).unwrap()
}

/// A connection begins to serve a request that shows a key.
fn claim(permit: &ConnectionPermit) -> RequestClass {
    permit.arrive(true).unwrap()
}

#[test]
fn the_longest_idle_stranger_makes_room() {
    let admission = admission(|config| config.connections = 2);
    let first = admission.admit(peer(1)).unwrap();
    let second = admission.admit(peer(2)).unwrap();
    // RequestGuard a request makes it the younger of the two.
    first.end(anonymous_request(&first));
    let third = admission.admit(peer(3)).unwrap();
    assert!(second.evicted().is_cancelled());
    assert!(!first.evicted().is_cancelled() && !third.evicted().is_cancelled());
}

#[test]
fn whoever_is_served_or_known_keeps_the_place() {
    let admission = admission(|config| config.connections = 3);
    let known = admission.admit(peer(1)).unwrap();
    known.authenticate();
    let served = admission.admit(peer(1)).unwrap();
    anonymous_request(&served);
    let unverified = admission.admit(peer(1)).unwrap();
    let claim = claim(&unverified);
    assert_eq!(admission.admit(peer(2)).unwrap_err(), Refused::Server);
    unverified.end(claim);
    admission.admit(peer(2)).unwrap();
    assert!(unverified.evicted().is_cancelled());
    assert!(known.is_authenticated() && !known.evicted().is_cancelled());
}

#[test]
fn a_wrong_key_does_not_keep_a_place_until_its_answer_is_read() {
    let admission = admission(|config| config.connections = 1);
    let wrong = admission.admit(peer(1)).unwrap();
    let before = claim(&wrong);
    assert_eq!(admission.admit(peer(2)).unwrap_err(), Refused::Server);
    assert_eq!(wrong.wrong(before), Ok(RequestClass::Refused));
    // Nor does another key that may be wrong as well.
    claim(&wrong);
    let next = admission.admit(peer(2)).unwrap();
    assert!(wrong.evicted().is_cancelled() && !next.evicted().is_cancelled());
}

#[test]
fn an_address_makes_room_among_its_own() {
    let admission = admission(|config| config.connections_per_address = 2);
    let neighbour = admission.admit(peer(9)).unwrap();
    let first = admission.admit(peer(1)).unwrap();
    let second = admission.admit(peer(1)).unwrap();
    let third = admission.admit(peer(1)).unwrap();
    assert!(first.evicted().is_cancelled() && !neighbour.evicted().is_cancelled());
    second.authenticate();
    third.authenticate();
    assert_eq!(admission.admit(peer(1)).unwrap_err(), Refused::Address);
    admission.admit(peer(2)).unwrap();
    drop(second);
    admission.admit(peer(1)).unwrap();
}

#[test]
fn this_machine_has_a_bound_of_its_own() {
    let admission = admission(|config| {
        config.connections_per_address = 1;
        config.connections_per_loopback_address = 2;
    });
    let local = [127, 0, 0, 1].into();
    let permits = [
        admission.admit(local).unwrap(),
        admission.admit(local).unwrap(),
    ];
    assert!(
        permits
            .iter()
            .all(|permit| !permit.evicted().is_cancelled())
    );
    drop(admission.admit(local).unwrap());
    assert!(permits[0].evicted().is_cancelled());
}

#[test]
fn strangers_that_are_served_leave_room_for_others() {
    let admission = admission(|config| {
        config.connections = 9;
        config.anonymous_connections = 1;
    });
    let first = admission.admit(peer(1)).unwrap();
    assert_eq!(anonymous_request(&first), RequestClass::Anonymous);
    let second = admission.admit(peer(1)).unwrap();
    assert_eq!(anonymous_request(&second), RequestClass::Refused);
    // On a connection with several requests a key does not hide what has none.
    let claim = claim(&second);
    assert_eq!(second.unknown(claim), Ok(RequestClass::Refused));
    // Once known, it does not count any more.
    first.authenticate();
    assert_eq!(anonymous_request(&second), RequestClass::Anonymous);
}

#[test]
fn strangers_leave_room_for_requests_with_a_key() {
    let admission = admission(|config| {
        config.connections_per_address = 2;
        config.connections = 3;
        config.anonymous_connections = 2;
    });
    let fill = |permit: &ConnectionPermit, claims| while permit.arrive(claims).is_ok() {};
    let stranger = admission.admit(peer(1)).unwrap();
    fill(&stranger, false);
    fill(&stranger, true);
    let other = admission.admit(peer(2)).unwrap();
    fill(&other, false);
    fill(&other, true);
    // From the address of an anonymous client, and from another: each has four of its own.
    for last in [1, 3] {
        let caller = admission.admit(peer(last)).unwrap();
        let claims = [(); CLAIMS_PER_CONNECTION].map(|()| claim(&caller));
        assert_eq!(caller.arrive(true), Err(TooManyRequests));
        // Told apart from anonymous ones, it needs no room at all.
        caller.authenticate();
        assert!((0..99).all(|_| caller.arrive(true).is_ok()));
        for claim in claims {
            caller.end(claim);
        }
    }
}

#[test]
fn a_connection_does_not_carry_more_than_its_address_may() {
    let admission = admission(|config| {
        config.connections_per_address = 2;
        config.connections = 3;
        config.anonymous_connections = 3;
    });
    let stranger = admission.admit(peer(1)).unwrap();
    let same = admission.admit(peer(1)).unwrap();
    let other = admission.admit(peer(2)).unwrap();
    let served = [anonymous_request(&stranger), anonymous_request(&stranger)];
    assert_eq!(served, [RequestClass::Anonymous; 2]);
    assert_eq!(
        anonymous_request(&same),
        RequestClass::Refused,
        "its address is full"
    );
    assert_eq!(anonymous_request(&other), RequestClass::Anonymous);
    assert_eq!(
        anonymous_request(&other),
        RequestClass::Refused,
        "the server is full"
    );
    // One that is answered makes room.
    stranger.end(RequestClass::Anonymous);
    assert_eq!(anonymous_request(&same), RequestClass::Anonymous);
    // Those that are told so are no flood either.
    assert_eq!(anonymous_request(&same), RequestClass::Refused);
    assert_eq!(same.arrive(false), Err(TooManyRequests));
}

#[test]
fn places_that_are_given_back_leave_nothing_behind() {
    let admission = admission(|config| config.connections = 2);
    let permits: Vec<_> = (0..5).map(|last| admission.admit(peer(last))).collect();
    assert_eq!(*admission.open.borrow(), 5, "those that went still close");
    for permit in permits.iter().flatten() {
        anonymous_request(permit);
        claim(permit);
    }
    drop(permits);
    assert_eq!(*admission.open.borrow(), 0);
    let table = admission.table.lock();
    assert!(table.connections.is_empty() && table.addresses.is_empty() && table.idle.is_empty());
    assert_eq!(table.requests, Counts::default());
}
