//! Enums whose values have a fixed spelling.

/// Error: the word is not one of the listed words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("use {}", choices(.0))]
pub struct UnknownWord(pub &'static [&'static str]);

/// Lists the words: `a, b or c`.
fn choices(words: &[&str]) -> String {
    match words {
        [rest @ .., last] if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        words => words.concat(),
    }
}

/// Declares an enum with a fixed spelling for each variant, a parser and a writer.
#[macro_export]
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
            type Err = $crate::core::words::UnknownWord;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                const WORDS: &[&str] = &[$($word),+];
                let index = WORDS.iter().position(|word| *word == text).ok_or($crate::core::words::UnknownWord(WORDS))?;
                Ok($name::ALL[index])
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
