//! Registries that lie, and those that send callers elsewhere for a token.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use parking_lot::Mutex;
use skep_types::{Redacted, RegistryCredentials};

use crate::Test;
use crate::archive::{Layer, digest, gzip};
use crate::registry::{Shop, configuration, manifest};

pub(crate) const TESTS: &[Test] = &[
    ("a_blob_that_is_another_is_refused", another_blob),
    ("a_layer_that_unpacks_to_another_is_refused", another_layer),
    ("a_manifest_of_another_digest_is_refused", another_manifest),
    ("a_status_is_named", status),
    ("a_manifest_without_end_is_not_read", endless),
    (
        "a_token_is_fetched_with_the_password_and_used_without",
        token,
    ),
    ("aws_gives_out_a_password_for_its_keys", aws),
    (
        "a_layer_of_a_private_image_is_not_had_by_its_digest",
        named_by_another,
    ),
];

struct Request {
    /// Method and path.
    line: String,
    head: String,
}

struct Answer {
    status: u16,
    header: String,
    body: Vec<u8>,
}

fn answer(status: u16, body: impl Into<Vec<u8>>) -> Answer {
    Answer {
        status,
        header: String::new(),
        body: body.into(),
    }
}

/// A server that answers as it is told, for as long as the test runs.
fn serve(respond: impl Fn(&Request, &str) -> Answer + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let own = host.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client that has heard enough hangs up.
            drop(handle(&stream, |request| respond(request, &own)));
        }
    });
    host
}

fn handle(mut stream: &TcpStream, respond: impl Fn(&Request) -> Answer) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if line.trim().is_empty() {
            break;
        }
        lines.push(line.trim().to_owned());
    }
    let head = lines[1..].join("\n");
    let length = lines.iter().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.parse::<u64>().unwrap())
    });
    let mut body = Vec::new();
    reader.take(length.unwrap_or(0)).read_to_end(&mut body)?;
    let line = lines[0].trim_end_matches(" HTTP/1.1").to_owned();
    let answer = respond(&Request { line, head });
    let (status, header, length) = (answer.status, answer.header, answer.body.len());
    write!(
        stream,
        "HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: {length}\r\n{header}\r\n"
    )?;
    stream.write_all(&answer.body)
}

/// A registry with one image, of which `change` may change every answer.
fn registry_of(
    layer: Vec<u8>,
    claimed: Vec<u8>,
    change: impl Fn(&str, Vec<u8>) -> Vec<u8> + Send + 'static,
) -> String {
    let blob = gzip(&layer);
    let configuration = configuration(std::env::consts::ARCH, &[claimed]);
    let manifest = manifest(&configuration, std::slice::from_ref(&blob));
    serve(move |request, _| {
        for document in [manifest.as_bytes(), configuration.as_bytes(), &blob] {
            let is_manifest =
                document == manifest.as_bytes() && request.line.contains("/manifests/");
            if is_manifest || request.line.ends_with(&digest(document)) {
                return answer(200, change(&request.line, document.to_vec()));
            }
        }
        answer(404, "")
    })
}

fn layer() -> Vec<u8> {
    Layer::new().file("a", "1").finish()
}

fn another_blob() {
    let blob = digest(&gzip(&layer()));
    let wanted = blob.clone();
    let host = registry_of(layer(), layer(), move |line, mut bytes| {
        if line.ends_with(&wanted) {
            bytes[20] ^= 1;
        }
        bytes
    });
    let shop = Shop::new(&host);
    assert_eq!(
        shop.refusal("x", None),
        format!("image `x`: the registry sent something else than {blob}")
    );
    assert_eq!(shop.leftovers(), 0);
}

fn another_layer() {
    let claimed = Layer::new().file("b", "2").finish();
    let host = registry_of(layer(), claimed.clone(), |_, bytes| bytes);
    let shop = Shop::new(&host);
    assert_eq!(
        shop.refusal("x", None),
        format!(
            "image `x`: the registry sent something else than {}",
            digest(&claimed)
        )
    );
    assert_eq!(shop.leftovers(), 0);
}

fn another_manifest() {
    let host = registry_of(layer(), layer(), |_, bytes| bytes);
    let reference = format!("x@{}", digest(b"another"));
    let shop = Shop::new(&host);
    assert_eq!(
        shop.refusal(&reference, None),
        format!(
            "image `{reference}`: the registry sent something else than {}",
            digest(b"another")
        )
    );
}

fn status() {
    for (status, text) in [
        (503, "the registry returned status 503"),
        (429, "the registry returned status 429"),
        (403, "access denied: no permission to read it"),
    ] {
        let shop = Shop::new(&serve(move |_, _| answer(status, "")));
        assert_eq!(shop.refusal("x", None), format!("image `x`: {text}"));
    }
}

fn endless() {
    let host = serve(|_, _| answer(200, vec![b' '; 5 << 20]));
    let refusal = Shop::new(&host).refusal("x", None);
    assert_eq!(
        refusal,
        "image `x`: the registry sent what is not an image: a document of it is cut off or too large"
    );
}

fn token() {
    let blob = gzip(&layer());
    let configuration = configuration(std::env::consts::ARCH, &[layer()]);
    let manifest = manifest(&configuration, std::slice::from_ref(&blob));
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let heard = Arc::clone(&seen);
    let host = serve(move |request, host| {
        let authorization = request.head.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("authorization").then_some(value)
        });
        heard
            .lock()
            .push(format!("{} {authorization:?}", request.line));
        if request.line.starts_with("GET /token?") {
            // `bee:hunter2`
            return match authorization {
                Some("Basic YmVlOmh1bnRlcjI=") => answer(200, r#"{"token": "tok"}"#),
                _ => answer(401, ""),
            };
        }
        if authorization != Some("Bearer tok") {
            let mut refusal = answer(401, "");
            refusal.header =
                format!("WWW-Authenticate: Bearer realm=\"http://{host}/token\",service=\"s\"\r\n");
            return refusal;
        }
        for document in [configuration.as_bytes(), &blob] {
            if request.line.ends_with(&digest(document)) {
                return answer(200, document);
            }
        }
        answer(200, manifest.as_bytes())
    });
    let shop = Shop::new(&host);
    let credentials = RegistryCredentials::Basic {
        username: "bee".to_owned(),
        password: Redacted::new("hunter2".to_owned()),
    };
    let reference = format!("{host}/a/x");
    shop.pull(&reference, Some(&credentials)).unwrap();
    let seen = seen.lock();
    let tokens = seen.iter().filter(|line| line.contains("/token?")).count();
    assert_eq!(tokens, 1, "{seen:?}");
    let asked = seen
        .iter()
        .any(|line| line.contains("service=s&scope=repository%3Aa%2Fx%3Apull"));
    assert!(asked, "{seen:?}");
    drop(seen);
    assert!(
        shop.refusal(&reference, None)
            .contains("asks for credentials")
    );
}

fn aws() {
    let host = registry_of(layer(), layer(), |_, bytes| bytes);
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let heard = Arc::clone(&seen);
    let service = serve(move |request, _| {
        heard
            .lock()
            .push(format!("{}\n{}", request.line, request.head));
        // `AWS:password`
        answer(
            200,
            r#"{"authorizationData": [{"authorizationToken": "QVdTOnBhc3N3b3Jk"}]}"#,
        )
    });
    let shop = Shop::with(&host, |registries| {
        registries.ecr_endpoint = Some(format!("http://{service}/"));
    });
    let credentials = |region: &str| RegistryCredentials::Aws {
        access_key_id: "AKIDEXAMPLE".to_owned(),
        secret_access_key: Redacted::new("wJalr".to_owned()),
        region: region.to_owned(),
    };
    let reference = format!("{host}/a/x");
    shop.pull(&reference, Some(&credentials("eu-central-1")))
        .unwrap();
    let request = seen.lock().join("\n").to_lowercase();
    for part in [
        "post /",
        "x-amz-target: amazonec2containerregistry_v20150921.getauthorizationtoken",
        "credential=akidexample/",
        "/eu-central-1/ecr/aws4_request, signedheaders=content-type;host;x-amz-date;x-amz-target",
    ] {
        assert!(request.contains(part), "{part}: {request}");
    }
    assert!(!request.contains("wjalr"), "{request}");
    let refusal = shop.refusal(&reference, Some(&credentials("evil.test/")));
    assert!(refusal.contains("the AWS region is not valid"), "{refusal}");
}

/// A registry with a private image, and a public repository whose manifest names the layer of it.
/// Nobody is given the blob from there. A second image of that repository is its own.
fn named_by_another() {
    let own = Layer::new().file("own", "1").finish();
    let secret = Layer::new().file("secret", "of team a").finish();
    let image = |layer: &Vec<u8>| {
        let configuration = configuration(std::env::consts::ARCH, std::slice::from_ref(layer));
        let blob = gzip(layer);
        let manifest = manifest(&configuration, std::slice::from_ref(&blob));
        (manifest, configuration, blob)
    };
    let (private, public) = (image(&secret), image(&own));
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let heard = Arc::clone(&seen);
    let host = serve(move |request, _| {
        let line = &request.line;
        heard.lock().push(line.clone());
        // `bee:hunter2`
        let is_allowed = request.head.contains("Basic YmVlOmh1bnRlcjI=");
        if line.contains("/a/private/") && !is_allowed {
            let mut refusal = answer(401, "");
            refusal.header = "WWW-Authenticate: Basic realm=\"r\"\r\n".to_owned();
            return refusal;
        }
        let asks_for = |text: &str| line.ends_with(text);
        if asks_for("/manifests/own") {
            return answer(200, public.0.clone());
        } else if line.contains("/manifests/") {
            return answer(200, private.0.clone());
        }
        for document in [public.1.as_bytes(), &public.2, private.1.as_bytes()] {
            if asks_for(&digest(document)) {
                return answer(200, document);
            }
        }
        if asks_for(&digest(&private.2)) && line.contains("/a/private/") {
            return answer(200, private.2.clone());
        }
        answer(404, "")
    });
    let credentials = RegistryCredentials::Basic {
        username: "bee".to_owned(),
        password: Redacted::new("hunter2".to_owned()),
    };
    let (private, named) = (format!("{host}/a/private"), format!("{host}/b/public"));
    let own = format!("{named}:own");
    let shop = Shop::new(&host);
    let refusal = format!("image `{named}`: the registry returned status 404");
    assert_eq!(shop.refusal(&named, None), refusal);
    shop.pull(&private, Some(&credentials)).unwrap();
    // The control: whoever may have them gets layers of the store.
    shop.pull(&private, Some(&credentials)).unwrap();
    for _ in 0..2 {
        shop.pull(&own, None).unwrap();
    }
    let lines = shop.lines.lock().join("\n");
    assert_eq!(lines.matches("is there already").count(), 2, "{lines}");

    assert_eq!(shop.refusal(&named, None), refusal);
    let remembered = shop.pull_remembered(&named).unwrap_err().to_string();
    assert_eq!(remembered, refusal);
    assert_eq!(
        shop.refusal(&private, None),
        format!(
            "image `{private}`: access denied: authentication failed (the registry asks for credentials)"
        )
    );
    let questions = seen.lock().len();
    shop.pull_remembered(&own).unwrap();
    assert_eq!(seen.lock().len(), questions, "{:?}", seen.lock());
}
