//! The kernel behind the prompt, which is asked while a person types.

use std::time::Duration;

use skep_client::Contexts;
use skep_wire::interpreter as wire;
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::completeness::Completeness;

/// Time limit for an answer. Whoever presses Tab or Enter waits for it.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(1500);

/// A context whose kernel can be asked.
#[derive(Debug, Clone)]
pub(super) struct Kernel {
    pub(super) contexts: Contexts,
    /// ID of the context.
    pub(super) context: String,
    pub(super) runtime: Handle,
}

/// The kernel did not answer in time, and may never do.
#[derive(Debug)]
pub(super) struct Silent;

impl Kernel {
    /// State of what was entered until now; `None` if the kernel cannot tell. Blocks, so it must not
    /// be called by a thread of the runtime.
    ///
    /// # Errors
    ///
    /// [`Silent`] if there is no answer in time.
    pub(super) fn completeness(&self, text: &str) -> Result<Option<Completeness>, Silent> {
        let asked = self.contexts.is_complete(&self.context, text);
        let answered = self.runtime.block_on(timeout(ANSWER_TIMEOUT, asked));
        // It runs code that was left to itself, or is gone.
        let Ok(answer) = answered.map_err(|_elapsed| Silent)? else {
            return Ok(None);
        };
        Ok(match answer.status {
            // What is wrong is run too: that is how a person learns of it.
            wire::Completeness::Complete | wire::Completeness::Invalid => {
                Some(Completeness::Complete)
            }
            wire::Completeness::Incomplete => Some(Completeness::Incomplete {
                indent: answer.indent.chars().count(),
            }),
            wire::Completeness::Unknown => None,
        })
    }

    /// The texts that could stand at byte `position` of `line`, and the byte at which what they
    /// replace begins. `None` if the kernel does not answer: it may be busy, or know no names.
    /// Blocks, so it must not be called by a thread of the runtime.
    pub(super) fn complete(&self, line: &str, position: usize) -> Option<(usize, Vec<String>)> {
        let cursor = line[..position].chars().count() as u64;
        let asked = self.contexts.complete(&self.context, line, cursor);
        let answered = self.runtime.block_on(timeout(ANSWER_TIMEOUT, asked));
        let found = answered.ok()?.ok()?;
        if found.matches.is_empty() || found.cursor_end != cursor {
            return None;
        }
        let start = byte_of(line, found.cursor_start)?;
        (start <= position).then_some((start, found.matches))
    }
}

/// The byte at which the character number `count` begins.
fn byte_of(text: &str, count: u64) -> Option<usize> {
    let count = usize::try_from(count).ok()?;
    let begins = text.char_indices().map(|(byte, _)| byte);
    begins.chain([text.len()]).nth(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_counted_and_bytes_are_found() {
        assert_eq!(byte_of("äb.c", 0), Some(0));
        assert_eq!(byte_of("äb.c", 3), Some(4));
        assert_eq!(byte_of("äb.c", 4), Some(5));
        assert_eq!(byte_of("äb.c", 5), None);
    }
}
