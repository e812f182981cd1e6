//! User code that writes to the sockets of its kernel.

use super::{World, world};

/// Runs `code` with `published`: the descriptor over which output goes.
async fn run_with_socket(world: &World, code: &str) -> Vec<String> {
    let find = "import ipykernel, json, os, socket, struct, time\npath = json.load(open(ipykernel.get_connection_file()))['ip'] + '-2'\nfound = []\nfor fd in map(int, os.listdir('/proc/self/fd')):\n    try:\n        peer = socket.socket(fileno=os.dup(fd))\n        if peer.family == socket.AF_UNIX and peer.getsockname() == path and peer.getpeername() is not None: found.append(peer)\n    except OSError: pass\n[published] = found\npublished.setblocking(True)\n";
    world.run(&format!("{find}{code}")).await
}

#[tokio::test]
async fn a_kernel_that_sends_garbage_is_ended() {
    let world = world();
    let code = "published.sendall(b'\\xff' * 1000)\ntime.sleep(1000)";
    let words = run_with_socket(&world, code).await;
    assert_eq!(
        words[words.len() - 2..],
        ["failed Died(Signal(9))", "ended Killed"]
    );
}

#[tokio::test]
async fn messages_with_a_wrong_signature_are_not_believed() {
    let world = world();
    let code = "def frame(data, more): return struct.pack('>BQ', 2 | more, len(data)) + data\nparts = [b'topic', b'<IDS|MSG>', b'00' * 32, b'{\"msg_type\":\"stream\"}', b'{\"msg_id\":\"e1\"}', b'{}', b'{\"name\":\"stdout\",\"text\":\"forged\"}']\nfor n, part in enumerate(parts): published.sendall(frame(part, int(n < len(parts) - 1)))\ntime.sleep(0.3)\nprint('true')";
    assert_eq!(
        run_with_socket(&world, code).await,
        ["accepted 1", "true", "ended Ok"]
    );
}

#[tokio::test]
async fn a_frame_without_an_end_silences_the_kernel_and_nothing_else() {
    let world = world();
    let code = "published.sendall(b'\\2' + b'\\xff' * 8)\nfor n in range(2000): published.sendall(b'x' * 100_000)\nos._exit(7)";
    let words = run_with_socket(&world, code).await;
    assert!(
        words.iter().any(|word| word.starts_with("too large")),
        "{words:?}"
    );
    assert_eq!(
        words[words.len() - 2..],
        ["failed Died(Code(7))", "ended KernelDied"]
    );
}

#[tokio::test]
async fn a_kernel_that_closes_its_sockets_is_ended() {
    let world = world();
    let words = world
        .run("import os, time\nos.closerange(3, 1000)\ntime.sleep(1000)")
        .await;
    let end = &words[words.len() - 2..];
    assert!(end[0].starts_with("failed Died"), "{end:?}");
}
