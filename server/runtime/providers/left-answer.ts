/** Leaves an answer behind its last frame, so that its connection serves again. */

const mostEndMs = 1000;

/** The connection serves again where nothing follows; nobody waits for a server that does not end. */
export function dropLate(body: AsyncIterableIterator<Buffer>): void {
  const leave = () => body.return?.().catch(() => undefined);
  const late = setTimeout(leave, mostEndMs).unref();
  body
    .next()
    .then(({ done }) => (done ? undefined : leave()))
    // It was cut behind its last frame, which nobody misses.
    .catch(() => undefined)
    .finally(() => clearTimeout(late));
}
