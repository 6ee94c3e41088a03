//! Reads an HTTP/1 response as Go's `net/http` does, from parts of any size.

use std::mem::{replace, take};

/// Size limit for the heads of a response, in bytes. The kubelet allows 10 MiB, but podgate must use little memory.
const HEAD_MAX: usize = 32 * 1024;
/// Size limit for a whole response, with the overhead of its chunks, in bytes.
const RESPONSE_MAX: usize = 128 * 1024;
/// Number of body bytes to read. Short bodies are read completely, because an early close can cause an error on the
/// server.
pub const BODY_MAX: u64 = 10 * 1024;
/// Number of bytes to read from the body of a redirect, and the length from which Go's client does not read it.
const REDIRECT_BODY_MAX: u64 = 2 * 1024;

/// A response, without its body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Response {
    /// Status code.
    pub status: u16,
    /// Target of a redirect.
    pub location: Option<String>,
    /// Reason why the body is incomplete.
    pub body_error: Option<String>,
}

/// A response that is being read.
#[derive(Debug, Default)]
pub struct ResponseReader {
    response: Response,
    part: Part,
    unparsed: Vec<u8>,
    size: usize,
    is_version_1_0: bool,
    length: Option<u64>,
    is_chunked: bool,
    /// Rest of the body or chunk.
    left: u64,
    /// Number of body bytes that are still to be read.
    wanted: u64,
}

/// The part of the response that comes next.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Part {
    #[default]
    Status,
    Header,
    Body,
    ChunkSize,
    ChunkEnd,
    Trailer,
    End,
}

impl ResponseReader {
    /// Reads the next bytes. Returns the response when enough of it has arrived.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Option<Response>, String> {
        self.size += bytes.len();
        let mut input = take(&mut self.unparsed);
        input.extend_from_slice(bytes);
        let mut rest = input.as_slice();
        loop {
            if self.part == Part::Body {
                let count = self.left.min(rest.len() as u64);
                (self.left, self.wanted) = (self.left - count, self.wanted.saturating_sub(count));
                rest = &rest[count as usize..];
                if self.left > 0 && self.wanted > 0 {
                    break;
                }
                self.part = if self.is_chunked && self.wanted > 0 { Part::ChunkEnd } else { Part::End };
            }
            if self.part == Part::End {
                return Ok(Some(take(&mut self.response)));
            }
            let Some(end) = rest.iter().position(|byte| *byte == b'\n') else { break };
            let line = rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]);
            rest = &rest[end + 1..];
            if let Err(why) = self.on_line(line) {
                return self.end(Some(why)).map(Some);
            }
        }
        self.unparsed = rest.to_vec();
        let limit = if self.is_in_body() { RESPONSE_MAX } else { HEAD_MAX };
        if self.size > limit { self.end(Some("the response is too long")).map(Some) } else { Ok(None) }
    }

    /// Ends the response because of `error`; `None` if the server has closed the connection.
    pub fn end(&mut self, error: Option<&str>) -> Result<Response, String> {
        let is_complete = error.is_none() && self.length.is_none() && !self.is_chunked;
        let why = error.unwrap_or("the connection was closed");
        let body_error = (!is_complete).then(|| why.to_owned());
        if self.is_in_body() { Ok(Response { body_error, ..take(&mut self.response) }) } else { Err(why.to_owned()) }
    }

    fn is_in_body(&self) -> bool {
        !matches!(self.part, Part::Status | Part::Header)
    }

    fn on_line(&mut self, line: &[u8]) -> Result<(), &'static str> {
        self.part = match self.part {
            Part::Status => {
                (self.is_version_1_0, self.response.status) = parse_status(line).ok_or("not an HTTP response")?;
                Part::Header
            }
            Part::Header if line.is_empty() => self.on_head_end(),
            Part::Header => self.on_header(line).ok_or("malformed header")?,
            Part::ChunkSize => {
                let size = line.split(|byte| *byte == b';').next().unwrap_or(line);
                self.left = parse_number(size.trim_ascii_end(), 16).ok_or("malformed chunk")?;
                if self.left == 0 { Part::Trailer } else { Part::Body }
            }
            Part::ChunkEnd if line.is_empty() => Part::ChunkSize,
            Part::Trailer if line.is_empty() => Part::End,
            Part::Trailer => Part::Trailer,
            Part::ChunkEnd | Part::Body | Part::End => return Err("malformed chunk"),
        };
        Ok(())
    }

    fn on_header(&mut self, line: &[u8]) -> Option<Part> {
        // A line that continues the last one never matters here.
        if line[0] == b' ' || line[0] == b'\t' {
            return Some(Part::Header);
        }
        let colon = line.iter().position(|byte| *byte == b':')?;
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        // Like Go's client, accept spaces in a name.
        let is_valid = colon > 0 && name.iter().all(|byte| *byte == b' ' || is_token(*byte));
        let has_control = value.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t');
        (is_valid && !has_control).then_some(())?;
        if name.eq_ignore_ascii_case(b"location") {
            self.response.location.get_or_insert_with(|| String::from_utf8_lossy(value).into_owned());
        } else if name.eq_ignore_ascii_case(b"content-length") {
            let length = parse_number(value, 10)?;
            self.length.replace(length).is_none_or(|other| other == length).then_some(())?;
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") && !self.is_version_1_0 {
            (!replace(&mut self.is_chunked, true) && value.eq_ignore_ascii_case(b"chunked")).then_some(())?;
        }
        Some(Part::Header)
    }

    fn on_head_end(&mut self) -> Part {
        let status = self.response.status;
        if (100..200).contains(&status) && status != 101 {
            (self.length, self.is_chunked, self.response.location) = (None, false, None);
            return Part::Status;
        }
        self.response.location.take_if(|location| !is_redirect(status) || location.is_empty());
        let is_redirect = self.response.location.is_some();
        self.wanted = if is_redirect { REDIRECT_BODY_MAX } else { BODY_MAX };
        self.left = self.length.unwrap_or(u64::MAX);
        match self.is_chunked {
            _ if matches!(status, 101 | 204 | 304) => Part::End,
            true => Part::ChunkSize,
            false if is_redirect && self.length.is_some_and(|length| length > REDIRECT_BODY_MAX) => Part::End,
            false => Part::Body,
        }
    }
}

/// Parses a status line. Returns true for HTTP/1.0, and the status code.
fn parse_status(line: &[u8]) -> Option<(bool, u16)> {
    let [major, b'.', minor, b' ', rest @ ..] = line.strip_prefix(b"HTTP/")? else { return None };
    let code = rest.trim_ascii_start().split(|byte| *byte == b' ').next().filter(|code| code.len() == 3)?;
    let version = parse_number(&[*major, *minor], 10)?;
    Some((version < 11, u16::try_from(parse_number(code, 10)?).ok()?))
}

/// Parses digits.
fn parse_number(digits: &[u8], base: u32) -> Option<u64> {
    let add = |number: u64, digit: &u8| {
        let digit = char::from(*digit).to_digit(base)?;
        number.checked_mul(base.into())?.checked_add(digit.into())
    };
    digits.iter().try_fold(0, add).filter(|_| !digits.is_empty())
}

/// Returns true for the status of a redirect that Go's client follows.
pub fn is_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

/// Returns true if the name of a header can contain `byte`.
pub(crate) fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
