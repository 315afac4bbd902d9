use super::ResponseHead;

/// The status and the body of an answer that came in these pieces; none while it is not whole, or when it is no HTTP.
/// It is what a load takes from its connections, without them: for fuzzing.
pub fn read_answer<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Option<(u16, Vec<u8>)> {
    let (mut received, mut head, mut body) = (Vec::new(), None, Vec::new());
    for piece in pieces {
        let from = match head {
            None => {
                received.extend_from_slice(piece);
                let Some((found, length)) = ResponseHead::parse(&received).ok()? else {
                    continue;
                };
                head = Some(found);
                received.split_off(length)
            }
            Some(_) => piece.to_vec(),
        };
        let framing = &mut head.as_mut()?.framing;
        let mut rest = from.as_slice();
        while let Some(payload) = framing.payload(&mut rest).ok()? {
            body.extend_from_slice(payload);
        }
    }
    let head = head?;
    head.framing.may_close().then_some((head.status, body))
}

#[cfg(test)]
mod tests {
    use super::read_answer;

    /// What comes, and the status and body in it.
    type Case = (&'static [u8], Option<(u16, &'static [u8])>);

    #[test]
    fn an_answer_is_the_same_wherever_it_was_cut() {
        let table: [Case; 5] = [
            (
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1;x=y\r\nc\r\n0\r\n\r\n",
                Some((200, b"abc")),
            ),
            (
                b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno",
                Some((404, b"no")),
            ),
            (b"HTTP/1.0 200\r\n\r\nuntil the end", Some((200, b"until the end"))),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort", None),
            (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", None),
        ];
        for (bytes, expected) in table {
            let expected = expected.map(|(status, body)| (status, body.to_vec()));
            for cut in [1, 2, 7, bytes.len()] {
                assert_eq!(read_answer(bytes.chunks(cut)), expected);
            }
        }
    }
}
