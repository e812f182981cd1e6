//! JSON that stays text.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// A JSON value of any shape, as its text.
///
/// It takes the memory of that text: as a tree, `[0,0,0]` takes sixteen times as much. What is too
/// deep or too exact for a tree can be passed on, too.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RawJson(Box<RawValue>);

impl RawJson {
    /// Its text.
    pub fn get(&self) -> &str {
        self.0.get()
    }

    /// The value that is written there.
    ///
    /// # Errors
    ///
    /// [`serde_json::Error`] if it is not of that type.
    pub fn read<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.get())
    }
}

impl PartialEq for RawJson {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}
