/** JSON that goes on as it came: arguments of calls hold numbers with more digits than a number has here. */

/** From 2^53 on, of sixteen digits, not every whole number is one here. */
const longNumber = /[:,[]\s*-?\d{16}/;
const longSource = /^-?\d{16}/;

/** Of the platform: https://github.com/tc39/proposal-json-parse-with-source, which the types do not have yet. */
const { rawJSON } = JSON as unknown as { rawJSON(source: string): unknown };

/** As `JSON.parse`, but that `JSON.stringify` writes long numbers as they stood. Nobody can reckon with them. */
export function parseExact(text: string): unknown {
  // What is called for each value takes several times as long.
  return holdsLongNumber(text) ? JSON.parse(text, withLongNumbers) : JSON.parse(text);
}

/** Whether there may be one in the text. */
export function holdsLongNumber(text: string): boolean {
  return longNumber.test(text);
}

function withLongNumbers(_name: string, value: unknown, context?: { readonly source?: string }): unknown {
  const { source = '' } = context ?? {};
  return typeof value === 'number' && longSource.test(source) ? rawJSON(source) : value;
}
