//! A JSON object whose values stay text.

use std::fmt;

use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

use crate::pretty;

/// An object that keeps the order of its keys and the text of its values.
#[derive(Debug, Clone, Default)]
pub(crate) struct Object(Vec<(String, Box<RawValue>)>);

impl Object {
    pub(crate) fn get(&self, name: &str) -> Option<&RawValue> {
        let entry = self.0.iter().find(|(found, _)| found == name)?;
        Some(&entry.1)
    }

    /// The value of a key, if it is there and of that type.
    pub(crate) fn read<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        serde_json::from_str(self.get(name)?.get()).ok()
    }

    pub(crate) fn set(&mut self, name: &str, value: &impl Serialize) {
        let value = to_raw_value(value).expect("strings, numbers, lists and objects serialise");
        self.set_raw(name, value);
    }

    /// Sets a key. A new one goes where it belongs if the keys are sorted, as Jupyter writes them.
    pub(crate) fn set_raw(&mut self, name: &str, value: Box<RawValue>) {
        if let Some(entry) = self.0.iter_mut().find(|(found, _)| found == name) {
            entry.1 = value;
            return;
        }
        let index = self
            .0
            .iter()
            .position(|(found, _)| found.as_str() > name)
            .unwrap_or(self.0.len());
        self.0.insert(index, (name.to_owned(), value));
    }

    /// Sets a key if there is something to set.
    pub(crate) fn extend(&mut self, name: &str, value: Option<Box<RawValue>>) {
        if let Some(value) = value {
            self.set_raw(name, value);
        }
    }

    pub(crate) fn remove(&mut self, name: &str) -> Option<Box<RawValue>> {
        let place = self.0.iter().position(|(found, _)| found == name)?;
        Some(self.0.remove(place).1)
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.0.iter().map(|(name, value)| (name.as_str(), &**value))
    }

    /// Writes it as Jupyter would, with `depth` levels around it.
    pub(crate) fn write(&self, depth: usize, into: &mut String) {
        let text = to_raw_value(self).expect("an object of JSON values serialises");
        pretty::write(text.get(), depth, into);
    }
}

impl Serialize for Object {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Object;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
                let mut entries: Vec<(String, Box<RawValue>)> = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, Box<RawValue>>()? {
                    // Of two equal keys the last counts, as everywhere.
                    entries.retain(|(found, _)| *found != name);
                    entries.push((name, value));
                }
                Ok(Object(entries))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_key_goes_where_it_belongs_and_an_old_one_stays() {
        let mut object: Object =
            serde_json::from_str(r#"{"b": 1.50, "d": [ ], "b": 2.50}"#).unwrap();
        object.set("c", &"x");
        object.set("d", &0);
        object.set("a", &());
        let text = serde_json::to_string(&object).unwrap();
        assert_eq!(text, r#"{"a":null,"c":"x","d":0,"b":2.50}"#);
        assert!(object.remove("b").is_some() && object.remove("b").is_none());
    }
}
