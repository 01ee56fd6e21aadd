/** Finds JSON that holds too much before it is parsed: millions of empty objects take a hundred times their bytes. */

/** Far more values than any answer of a model, a tool or a language server holds. */
const mostValues = 500_000;
/** In fewer bytes there are not so many. */
const fewBytes = mostValues;

const lineFeed = 0x0a;
const carriageReturn = 0x0d;
const quotationMark = 0x22;
const comma = 0x2c;
const bracket = 0x5b;
const backslash = 0x5c;
const brace = 0x7b;

/** Parses what another program sends; throws where it holds too much, as where it is no JSON. */
export function parseHeld(text: string, parse: (text: string) => unknown = JSON.parse): unknown {
  if (text.length > fewBytes && new JsonCrowd().isIn(Buffer.from(text)))
    throw new Error('it holds more values than can be held');
  return parse(text);
}

/** Counts the values of a text whose bytes come one piece after the other. */
export class JsonCrowd {
  #values = 0;
  #inText = false;
  #escaped = false;

  /** Whether it is too much by now. */
  isIn(bytes: Uint8Array): boolean {
    let [values, inText, escaped] = [this.#values, this.#inText, this.#escaped];
    for (let at = 0; at < bytes.length; at += 1) {
      const byte = bytes[at];
      // No text of JSON goes on behind it: a mark that stood in another line of an event has not begun one.
      if (byte === lineFeed || byte === carriageReturn) inText = escaped = false;
      else if (escaped) escaped = false;
      else if (byte === quotationMark) inText = !inText;
      else if (inText) escaped = byte === backslash;
      else if (byte === comma || byte === brace || byte === bracket) values += 1;
    }
    [this.#values, this.#inText, this.#escaped] = [values, inText, escaped];
    return this.#values > mostValues;
  }

  /** What comes next is another text. */
  restart(): void {
    this.#values = 0;
    this.#inText = false;
    this.#escaped = false;
  }
}
