//! Rules that say which requests go through, how many, and how many bytes.

use skep_native::Defence;
use skep_types::{Connections, RequestPatternWords, RequestRuleWords};

use super::{World, count, get, ruled};
use crate::named_hosts::{launch, only, say, status};
use crate::web::WEB;

crate::tests![
    requests_that_no_pattern_has_are_refused_with_and_without_tls,
    limits_of_requests_and_bytes_hold,
];

async fn requests_that_no_pattern_has_are_refused_with_and_without_tls() {
    let world = World::new().await;
    let rule = RequestRuleWords {
        requests: Some(vec![RequestPatternWords {
            methods: vec!["GET".into()],
            paths: vec!["/v1/*".into()],
        }]),
        ..RequestRuleWords::default()
    };
    let egress = ruled(only(&["a.tls.test"]), "a.tls.test", rule);
    let (id, sandbox) = launch(&world.bench, egress.clone()).await;
    let client = world.client(&sandbox);
    let request = |method: &str, path: &str| {
        format!("{method} {path} HTTP/1.1\r\nHost: a.tls.test\r\nConnection: close\r\n\r\n")
    };
    for (method, path, expected) in [
        ("GET", "/v1/a?token=1", "200"),
        ("POST", "/v1/a?token=1", "403"),
        ("GET", "/v1/../a", "403"),
    ] {
        let said = client.say("a.tls.test", &request(method, path));
        assert_eq!(status(&said), expected, "{said}");
        let plain = say(&sandbox, WEB, request(method, path).as_bytes()).await;
        assert_eq!(status(&plain), expected, "{plain}");
        for said in [said, plain] {
            let is_told = said.contains("do not allow this method and path");
            assert_eq!(is_told, expected == "403", "{said}");
        }
    }
    let log = [
        "a.tls.test GET /v1/a 200 a.tls.test",
        "a.tls.test GET /v1/a 200 a.tls.test",
        "a.tls.test POST /v1/a 403 a.tls.test refused",
        "a.tls.test POST /v1/a 403 a.tls.test refused",
        "a.tls.test GET /v1/../a 403 a.tls.test refused",
        "a.tls.test GET /v1/../a 403 a.tls.test refused",
    ];
    world.check_log(&id, &log).await;
    world.finish(vec![sandbox]).await;
    let world = World::without(Defence::InspectedRequests).await;
    let (_, sandbox) = launch(&world.bench, egress).await;
    let client = world.client_of_hosts(&sandbox);
    let said = client.say("a.tls.test", &request("POST", "/v1/../a"));
    let plain = say(&sandbox, WEB, request("POST", "/v1/../a").as_bytes()).await;
    assert_eq!((status(&said), status(&plain)), ("200", "200"));
    world.finish(vec![sandbox]).await;
}

async fn limits_of_requests_and_bytes_hold() {
    let world = World::new().await;
    let rule = RequestRuleWords {
        requests_per_minute: Some(3),
        ..RequestRuleWords::default()
    };
    let egress = ruled(only(&["*.tls.test"]), "a.tls.test", rule);
    let (_, sandbox) = launch(&world.bench, egress).await;
    let line = "GET a.tls.test /";
    let said = world
        .client(&sandbox)
        .ask("a.tls.test", &[line, line, line, line]);
    assert_eq!(count(&said, "status 200"), 3, "{said}");
    assert!(
        said.contains("status 429") && said.contains("of this minute are used up"),
        "{said}"
    );
    // Bytes are counted without a look inside.
    let rule = RequestRuleWords {
        bytes: Some(20_000),
        ..RequestRuleWords::default()
    };
    let egress = ruled(only(&["*.tls.test"]), "b.tls.test", rule);
    sandbox.set_egress(egress, Connections::Cut).await.unwrap();
    let theirs = world.client_of_hosts(&sandbox);
    let large = get("b.tls.test", &format!("X-Large: {}\r\n", "x".repeat(5_000)));
    let mut answered = 0;
    while status(&theirs.say("b.tls.test", &large)) == "200" {
        answered += 1;
        assert!(answered < 4, "nothing stops it");
    }
    assert!(answered > 0);
    world.finish(vec![sandbox]).await;
    let world = World::without(Defence::InspectedRequests).await;
    let rule = RequestRuleWords {
        requests_per_minute: Some(3),
        bytes: Some(20_000),
        ..RequestRuleWords::default()
    };
    let egress = ruled(only(&["*.tls.test"]), "b.tls.test", rule);
    let (_, sandbox) = launch(&world.bench, egress).await;
    let client = world.client_of_hosts(&sandbox);
    for _ in 0..4 {
        assert_eq!(status(&client.say("b.tls.test", &large)), "200");
    }
    world.finish(vec![sandbox]).await;
}
