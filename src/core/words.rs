//! Enums whose values have a fixed spelling.

/// Error: the word is not a value of the enum.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a value that podgate writes")]
pub struct Unknown;

/// Declares an enum with a fixed spelling for each variant, a parser and a writer.
macro_rules! words {
    ($(#[$attribute:meta])* $name:ident { $($(#[$about:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$about])* $variant),+ }

        impl $name {
            /// All values, in declaration order.
            pub const ALL: [$name; [$($word),+].len()] = [$($name::$variant),+];

            /// Returns the fixed spelling of this value.
            pub fn as_str(self) -> &'static str {
                match self { $($name::$variant => $word),+ }
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::core::words::Unknown;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                $name::ALL.into_iter().find(|value| value.as_str() == text).ok_or($crate::core::words::Unknown)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}
pub(crate) use words;
