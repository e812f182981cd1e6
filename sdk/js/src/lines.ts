/** The lines of a body. A body that breaks off throws what its reader throws. */
export async function* lines(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = body.getReader()
  const decoder = new TextDecoder()
  // Pieces of a line that has not ended yet: a large one is put together once, and not for every piece.
  let pieces: string[] = []
  let ended = false
  try {
    for (;;) {
      const { done, value } = await reader.read()
      let text = done ? decoder.decode() : decoder.decode(value, { stream: true })
      for (let end = text.indexOf('\n'); end !== -1; end = text.indexOf('\n')) {
        pieces.push(text.slice(0, end))
        yield pieces.join('')
        pieces = []
        text = text.slice(end + 1)
      }
      if (text) pieces.push(text)
      if (done) break
    }
    ended = true
    const rest = pieces.join('')
    if (rest) yield rest
  } finally {
    // Whoever stops early hangs up, which the server takes for an interrupt.
    if (!ended) await reader.cancel().catch(() => undefined)
    reader.releaseLock()
  }
}
