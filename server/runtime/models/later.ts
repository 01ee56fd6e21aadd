/** Reads what has to be found first. By hand: a generator in between makes several turns of each of thousands of pieces. */

/** Nothing is looked for before somebody reads. */
export function later<Part>(find: () => Promise<AsyncIterable<Part>>): AsyncIterable<Part> {
  return {
    [Symbol.asyncIterator]() {
      let finding: Promise<AsyncIterator<Part>> | null = null;
      let found: AsyncIterator<Part> | null = null;
      return {
        next() {
          if (found) return found.next();
          finding ??= find().then((parts) => {
            found = parts[Symbol.asyncIterator]();
            return found;
          });
          return finding.then((parts) => parts.next());
        },
        async return() {
          await (await finding)?.return?.();
          return { done: true, value: undefined };
        },
      };
    },
  };
}
