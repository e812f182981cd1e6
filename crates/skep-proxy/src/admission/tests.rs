use super::*;

fn admission(change: impl FnOnce(&mut FrontConfig)) -> Arc<Admission> {
    let mut config = FrontConfig::new("skep.test");
    change(&mut config);
    Arc::new(Admission::new(&config))
}

fn peer(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

/// The last request of a connection has been answered.
fn finish(place: &Place) {
    place.rest();
}

#[test]
fn the_longest_idle_stranger_makes_room() {
    let admission = admission(|config| config.connections = 2);
    let first = admission.admit(peer(1)).unwrap();
    let second = admission.admit(peer(2)).unwrap();
    // Serving a request makes it the younger of the two.
    first.begin(Shown::Nothing);
    finish(&first);
    let third = admission.admit(peer(3)).unwrap();
    assert!(second.evicted().is_cancelled());
    assert!(!first.evicted().is_cancelled() && !third.evicted().is_cancelled());
}

#[test]
fn whoever_is_served_or_known_keeps_the_place() {
    let admission = admission(|config| config.connections = 3);
    let known = admission.admit(peer(1)).unwrap();
    known.begin(Shown::Token);
    finish(&known);
    let served = admission.admit(peer(1)).unwrap();
    served.begin(Shown::Nothing);
    let claiming = admission.admit(peer(1)).unwrap();
    claiming.begin(Shown::Key);
    assert_eq!(admission.admit(peer(2)).unwrap_err(), Refused::Server);
    // The key was wrong.
    finish(&claiming);
    admission.admit(peer(2)).unwrap();
    assert!(claiming.evicted().is_cancelled());
    assert!(known.is_authenticated() && !known.evicted().is_cancelled());
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
    let places = [
        admission.admit(local).unwrap(),
        admission.admit(local).unwrap(),
    ];
    assert!(places.iter().all(|place| !place.evicted().is_cancelled()));
    drop(admission.admit(local).unwrap());
    assert!(places[0].evicted().is_cancelled());
}

#[test]
fn strangers_that_are_served_leave_room_for_others() {
    let admission = admission(|config| {
        config.connections = 9;
        config.anonymous_connections = 1;
    });
    let first = admission.admit(peer(1)).unwrap();
    first.begin(Shown::Nothing);
    let second = admission.admit(peer(1)).unwrap();
    assert_eq!(second.begin(Shown::Nothing), Turn::AnonymousFull);
    second.begin(Shown::Key);
    // On a connection with several requests a key does not hide what has none.
    assert_eq!(second.begin(Shown::Nothing), Turn::AnonymousFull);
    // Once known, it does not count any more.
    first.authenticate();
    assert_eq!(second.begin(Shown::Nothing), Turn::Served);
}

#[test]
fn a_connection_does_not_carry_more_than_its_address_may() {
    let admission = admission(|config| {
        config.connections_per_address = 2;
        config.connections = 3;
    });
    let arrive = |place: &Place, count: usize| (0..count).try_for_each(|_| place.arrive());
    let stranger = admission.admit(peer(1)).unwrap();
    arrive(&stranger, 8).unwrap();
    assert_eq!(stranger.arrive(), Err(TooManyRequests));
    let same = admission.admit(peer(1)).unwrap();
    assert_eq!(same.arrive(), Err(TooManyRequests));
    let other = admission.admit(peer(2)).unwrap();
    arrive(&other, 4).unwrap();
    assert_eq!(other.arrive(), Err(TooManyRequests), "the server is full");
    // One that is answered makes room, and whoever is known needs none.
    stranger.end();
    same.arrive().unwrap();
    assert_eq!(stranger.begin(Shown::Token), Turn::Served);
    arrive(&stranger, 99).unwrap();
    arrive(&other, 4).unwrap();
}

#[test]
fn places_that_are_given_back_leave_nothing_behind() {
    let admission = admission(|config| config.connections = 2);
    let places: Vec<_> = (0..5).map(|last| admission.admit(peer(last))).collect();
    assert_eq!(*admission.open.borrow(), 5, "those that went still close");
    for place in places.iter().flatten() {
        place.arrive().unwrap();
        place.begin(Shown::Nothing);
    }
    drop(places);
    assert_eq!(*admission.open.borrow(), 0);
    let table = admission.lock();
    assert!(table.connections.is_empty() && table.addresses.is_empty() && table.idle.is_empty());
    assert_eq!((table.anonymous_busy, table.requests), (0, 0));
}
