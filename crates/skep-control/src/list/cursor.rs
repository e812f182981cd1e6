//! A place in a list, as text that clients carry around without looking inside.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use skep_types::SandboxId;

use super::SortOrder;

/// The last thing on a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    /// Time that the list is ordered by.
    pub at: Timestamp,
    /// Id of the last item, to order those of the same moment.
    pub id: SandboxId,
}

/// A text that is no cursor, or one of a list in the other order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a cursor of this list")]
pub struct CursorError;

impl Cursor {
    /// The text of the cursor in a list of this order.
    pub fn encode(&self, order: SortOrder) -> String {
        let suffix = match order {
            SortOrder::NewestFirst => "",
            SortOrder::OldestFirst => "__asc",
        };
        URL_SAFE_NO_PAD.encode(format!("{}__{}{suffix}", self.at, self.id))
    }

    /// The cursor of a text, if it belongs to a list of this order.
    ///
    /// # Errors
    ///
    /// [`CursorError`].
    pub fn decode(text: &str, order: SortOrder) -> Result<Self, CursorError> {
        let text = text.trim_end_matches('=');
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| CursorError)?;
        let text = String::from_utf8(bytes).map_err(|_| CursorError)?;
        let (at, rest) = text.split_once("__").ok_or(CursorError)?;
        let (id, found) = match rest.split_once("__") {
            None => (rest, SortOrder::NewestFirst),
            Some((id, "asc")) => (id, SortOrder::OldestFirst),
            Some(_) => return Err(CursorError),
        };
        if found != order {
            return Err(CursorError);
        }
        Ok(Self {
            at: at.parse().map_err(|_| CursorError)?,
            id: id.parse().map_err(|_| CursorError)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_cursor_reads_back_in_its_own_order_alone(micros in 0i64..4_000_000_000_000_000) {
            let cursor = Cursor {
                at: Timestamp::from_microsecond(micros).unwrap(),
                id: SandboxId::random(),
            };
            let orders = [SortOrder::NewestFirst, SortOrder::OldestFirst];
            for order in orders {
                let text = cursor.encode(order);
                for read in orders {
                    let expected = if read == order { Ok(cursor.clone()) } else { Err(CursorError) };
                    prop_assert_eq!(Cursor::decode(&text, read), expected);
                }
            }
        }

        #[test]
        fn no_text_breaks_the_reader(text in ".{0,80}") {
            let read = Cursor::decode(&text, SortOrder::NewestFirst);
            prop_assert_eq!(read, Err(CursorError));
        }
    }
}
