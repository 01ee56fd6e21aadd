/** An error that a provider tells within its answer, in the form of the errors of the AI SDK, whose meaning is known. */

/** Before the answer there is a status; within it vendors say a type or a code, each in words of its own. The first that fits counts. */
const statuses: readonly (readonly [pattern: RegExp, status: number])[] = [
  [/context_length|string_above_max_length/, 400],
  [/insufficient_quota|billing|payment/, 402],
  [/rate_?limit|too_?many_?requests|resource_exhausted/, 429],
  [/overloaded/, 529],
  [/authentication|invalid_api_key|unauthorized|unauthenticated/, 401],
  [/permission|forbidden/, 403],
  [/not_?found/, 404],
  [/too_?large/, 413],
  [/timeout|deadline/, 504],
  [/invalid_?(?:request|argument|prompt)|bad_?request/, 400],
];

/** As much of the words as is looked at. */
const mostCharacters = 4000;

export function errorWithin(told: unknown): Error {
  const { message } = membersOf(told);
  const words = typeof message === 'string' ? message : '';
  return Object.assign(
    new Error(`The provider ended its answer with an error: ${words}`.slice(0, mostCharacters)),
    {
      statusCode: statusOf(told),
      // What it means is said here where the type is of another kind, as that the conversation is too long.
      responseBody: JSON.stringify(told).slice(0, mostCharacters),
    },
  );
}

function statusOf(told: unknown): number {
  const { code, status, type } = membersOf(told);
  const said = [code, status, type];
  const number = said.map(Number).find((value) => value >= 400 && value <= 599);
  if (number !== undefined) return number;
  const names = typeof told === 'string' ? [told] : said.filter((name) => typeof name === 'string');
  const known = names.flatMap((name) => statuses.filter(([pattern]) => pattern.test(name.toLowerCase())));
  // What nobody knows may be better at the next try.
  return known[0]?.[1] ?? 500;
}

function membersOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? { ...value } : {};
}
