//! Messages of CRIU's images, as far as they are edited: fields in their order, what is not known
//! left as it is.

/// One field of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) number: u64,
    pub(crate) value: Value,
}

/// Value of a field, by how it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Varint(u64),
    Fixed64([u8; 8]),
    Bytes(Vec<u8>),
    Fixed32([u8; 4]),
}

/// Reads a message; `None` if it is none.
pub(crate) fn read(mut bytes: &[u8]) -> Option<Vec<Field>> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes)?;
        let value = match key & 7 {
            0 => Value::Varint(varint(&mut bytes)?),
            1 => Value::Fixed64(take(&mut bytes, 8)?.try_into().ok()?),
            2 => {
                let length = usize::try_from(varint(&mut bytes)?).ok()?;
                Value::Bytes(take(&mut bytes, length)?.to_vec())
            }
            5 => Value::Fixed32(take(&mut bytes, 4)?.try_into().ok()?),
            _ => return None,
        };
        fields.push(Field {
            number: key >> 3,
            value,
        });
    }
    Some(fields)
}

/// Writes a message.
pub(crate) fn write(fields: &[Field]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for Field { number, value } in fields {
        let kind = match value {
            Value::Varint(_) => 0,
            Value::Fixed64(_) => 1,
            Value::Bytes(_) => 2,
            Value::Fixed32(_) => 5,
        };
        put_varint(&mut bytes, number << 3 | kind);
        match value {
            Value::Varint(value) => put_varint(&mut bytes, *value),
            Value::Fixed64(value) => bytes.extend(value),
            Value::Fixed32(value) => bytes.extend(value),
            Value::Bytes(value) => {
                put_varint(&mut bytes, value.len() as u64);
                bytes.extend(value);
            }
        }
    }
    bytes
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(taken)
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..u64::BITS).step_by(7) {
        let byte = take(bytes, 1)?[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn put_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    bytes.push(value.to_le_bytes()[0]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_written_as_it_was() {
        let fields = vec![
            Field {
                number: 1,
                value: Value::Varint(300),
            },
            Field {
                number: 99,
                value: Value::Bytes(b"unknown".to_vec()),
            },
            Field {
                number: 2,
                value: Value::Fixed32([1, 2, 3, 4]),
            },
            Field {
                number: 3,
                value: Value::Fixed64([8; 8]),
            },
            Field {
                number: 1,
                value: Value::Varint(u64::MAX),
            },
        ];
        assert_eq!(read(&write(&fields)), Some(fields));
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for bytes in [&[0x0a, 5, 1][..], &[0x0b], &[0xff; 12], &[0x08]] {
            assert_eq!(read(bytes), None, "{bytes:?}");
        }
    }
}
