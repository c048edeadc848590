//! The trait of messages, and the macro that declares them.

use crate::wire::{DecodeError, Fields, MAX_DEPTH, WireValue};

/// A protocol buffer message. [`messages!`](crate::messages) implements it.
pub trait Message: Default {
    /// Appends all fields that do not have default values.
    fn put_fields(&self, out: &mut Vec<u8>);

    /// Stores the value of one field; unknown fields are ignored.
    ///
    /// # Errors
    /// The value has the wrong wire type, is invalid, or nests more than 100 messages.
    fn merge_field(
        &mut self,
        number: u32,
        value: WireValue<'_>,
        depth: u32,
    ) -> Result<(), DecodeError>;

    /// Encodes the message.
    fn encode_to_vec(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.put_fields(&mut out);
        out
    }

    /// Decodes a message.
    ///
    /// # Errors
    /// The bytes are not a message of this type.
    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.merge(bytes, MAX_DEPTH)?;
        Ok(message)
    }

    /// Decodes `bytes` into this message, with at most `depth` levels of nested messages.
    ///
    /// # Errors
    /// The errors of [`decode`](Self::decode).
    fn merge(&mut self, bytes: &[u8], depth: u32) -> Result<(), DecodeError> {
        let depth = depth.checked_sub(1).ok_or(DecodeError("messages are nested too deeply"))?;
        let mut fields = Fields(bytes);
        while let Some((number, value)) = fields.next()? {
            self.merge_field(number, value, depth)?;
        }
        Ok(())
    }
}

/// Declares messages. Each field is followed by its number. A `oneof` field is an `Option` of an
/// enum declared with `oneof`, and the variants are followed by their numbers.
///
/// ```
/// use oxidax_proto::{Message, messages};
///
/// messages! {
///     struct Setting {
///         name: String = 1,
///         ; value: Option<Number>
///     }
///     oneof enum Number {
///         Int(i64) = 2,
///         Double(f64) = 3,
///     }
/// }
///
/// let setting = Setting { name: String::new(), value: Some(Number::Int(0)) };
/// assert_eq!(setting.encode_to_vec(), [0x10, 0]);
/// ```
#[macro_export]
macro_rules! messages {
    () => {};
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident {
            $( $(#[$field_meta:meta])* $field_vis:vis $field:ident : $type:ty = $number:literal, )*
            $( ; $oneof_vis:vis $oneof:ident : Option<$oneof_type:ident> )?
        }
        $($rest:tt)*
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq)]
        $vis struct $name {
            $( $(#[$field_meta])* $field_vis $field: $type, )*
            $( $oneof_vis $oneof: Option<$oneof_type>, )?
        }
        impl $crate::Message for $name {
            fn put_fields(&self, out: &mut Vec<u8>) {
                $( $crate::Field::put(&self.$field, $number, out); )*
                $( if let Some(value) = &self.$oneof { $crate::Oneof::put(value, out); } )?
            }
            fn merge_field(
                &mut self,
                number: u32,
                value: $crate::WireValue<'_>,
                depth: u32,
            ) -> Result<(), $crate::DecodeError> {
                match number {
                    $( $number => $crate::Field::merge(&mut self.$field, value, depth), )*
                    _ => {
                        $( $crate::Oneof::merge(&mut self.$oneof, number, value, depth)?; )?
                        Ok(())
                    }
                }
            }
        }
        $crate::messages! { $($rest)* }
    };
    (
        $(#[$meta:meta])*
        $vis:vis oneof enum $name:ident { $( $variant:ident($type:ty) = $number:literal, )* }
        $($rest:tt)*
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        $vis enum $name { $( $variant($type), )* }
        impl $crate::Oneof for $name {
            fn put(&self, out: &mut Vec<u8>) {
                match self {
                    $( Self::$variant(value) => {
                        $crate::Field::put_present(value, $number, out);
                    } )*
                }
            }
            fn merge(
                this: &mut Option<Self>,
                number: u32,
                value: $crate::WireValue<'_>,
                depth: u32,
            ) -> Result<(), $crate::DecodeError> {
                match number {
                    $( $number => {
                        let mut field = match this.take() {
                            Some(Self::$variant(field)) => field,
                            _ => <$type as Default>::default(),
                        };
                        $crate::Field::merge(&mut field, value, depth)?;
                        *this = Some(Self::$variant(field));
                    } )*
                    _ => {}
                }
                Ok(())
            }
        }
        $crate::messages! { $($rest)* }
    };
}
