//! Hosts that would like to have a value that is for another.

use std::sync::Arc;
use std::time::SystemTime;

use skep_types::Connections;

use super::{SECRET, Setup, World, authority_in, count, get, ruled, with_key};
use crate::named_hosts::{launch, only, status};
use crate::secure::arguments;

crate::tests![
    a_host_that_cannot_prove_its_name_gets_nothing,
    a_host_that_imitates_the_authority_of_sandboxes_gets_nothing,
    a_redirect_carries_no_value_to_another_host,
];

async fn a_host_that_cannot_prove_its_name_gets_nothing() {
    let world = World::new().await;
    let egress = ruled(only(&["x.b.tls.test"]), "x.b.tls.test", with_key());
    let (_, sandbox) = launch(&world.bench, egress).await;
    let said = world
        .client(&sandbox)
        .say("x.b.tls.test", &get("x.b.tls.test", ""));
    assert!(
        status(&said) == "502" && said.contains("cannot be verified"),
        "{said}"
    );
    world.finish(vec![sandbox]).await;
}

async fn a_host_that_imitates_the_authority_of_sandboxes_gets_nothing() {
    // Its own, which sandboxes trust for every host, and one that somebody has made in its likeness.
    let alike = tempfile::tempdir().unwrap();
    for (of_another, trusts_it, expected) in [
        (false, false, "502"),
        (true, false, "502"),
        // It is the list of authorities that keeps it out.
        (false, true, "200"),
    ] {
        let mut setup = Setup::new();
        let authority = if of_another {
            authority_in(&alike)
        } else {
            Arc::clone(&setup.authority)
        };
        let name = "a.tls.test".parse().unwrap();
        let shown = authority.issue(&name, SystemTime::now()).unwrap();
        setup.shown = arguments(&shown.certificate, &shown.key);
        if trusts_it {
            setup.roots += &std::fs::read_to_string(authority.certificate_file()).unwrap();
        }
        let world = World::of(setup).await;
        let egress = ruled(only(&["a.tls.test"]), "a.tls.test", with_key());
        let (_, sandbox) = launch(&world.bench, egress).await;
        let said = world
            .client(&sandbox)
            .say("a.tls.test", &get("a.tls.test", ""));
        assert_eq!(status(&said), expected, "{said}");
        assert_eq!(said.contains("cannot be verified"), !trusts_it, "{said}");
        assert_eq!(said.contains(SECRET), trusts_it, "{said}");
        world.finish(vec![sandbox]).await;
    }
}

async fn a_redirect_carries_no_value_to_another_host() {
    let world = World::new().await;
    let egress = ruled(only(&["*.tls.test"]), "a.tls.test", with_key());
    let (id, sandbox) = launch(&world.bench, egress).await;
    let (client, theirs) = (world.client(&sandbox), world.client_of_hosts(&sandbox));
    let sent_on = "GET /to/b.tls.test HTTP/1.1\r\nHost: a.tls.test\r\nConnection: close\r\n\r\n";
    let said = client.say("a.tls.test", sent_on);
    assert!(
        status(&said) == "302" && said.contains("location: https://b.tls.test/x\r\n"),
        "{said}"
    );
    assert_eq!(count(&said, SECRET), 0, "{said}");
    let said = theirs.say("b.tls.test", &get("b.tls.test", ""));
    assert_eq!((status(&said), count(&said, "x-key")), ("200", 0), "{said}");
    // Nobody but the program goes there.
    let log = [
        "a.tls.test GET /to/b.tls.test 302 *.tls.test",
        "b.tls.test - - - *.tls.test",
    ];
    world.check_log(&id, &log).await;
    // A rule that is for both hosts carries it along.
    let both = ruled(only(&["*.tls.test"]), "*.tls.test", with_key());
    sandbox.set_egress(both, Connections::Cut).await.unwrap();
    let said = client.say("b.tls.test", &get("b.tls.test", ""));
    assert_eq!(count(&said, SECRET), 1, "{said}");
    // And to a host that is not allowed nothing leads.
    let denied = ruled(only(&["a.tls.test"]), "a.tls.test", with_key());
    sandbox.set_egress(denied, Connections::Cut).await.unwrap();
    assert_eq!(status(&client.say("a.tls.test", sent_on)), "302");
    let said = client.say("b.tls.test", &get("b.tls.test", ""));
    assert!(said.contains("AccessDenied"), "{said}");
    world.finish(vec![sandbox]).await;
}
