/** Streams that can be left at any moment, also while nothing comes. */

/**
 * What `begin` gives, with a `return()` and a `throw()` that do not wait. Those of a generator wait for what it waits for, the
 * next event; so these abort it, by a signal that the caller's own is part of.
 */
export function leavable<Event>(
  given: AbortSignal | undefined,
  begin: (signal: AbortSignal) => AsyncGenerator<Event, void, undefined>,
): AsyncGenerator<Event, void, undefined> {
  const left = new AbortController();
  const events = begin(given ? AbortSignal.any([given, left.signal]) : left.signal);
  const orOver = async (step: Promise<IteratorResult<Event, void>>): Promise<IteratorResult<Event, void>> => {
    try {
      return await step;
    } catch (error) {
      if (left.signal.aborted) return { done: true, value: undefined };
      throw error;
    }
  };
  const [next, end, fail] = [events.next.bind(events), events.return.bind(events), events.throw.bind(events)];
  return Object.assign(events, {
    next: () => orOver(next()),
    return(value: void | PromiseLike<void>) {
      left.abort();
      return orOver(end(value));
    },
    throw(error: unknown) {
      left.abort();
      return fail(error);
    },
  });
}
