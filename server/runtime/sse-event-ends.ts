/** Finds where the events of a stream of server-sent events end: at its empty lines, however the network cuts them. */

const emptyLines = [Buffer.from('\n\n'), Buffer.from('\n\r\n')];
/** Of an empty line, as much as may have come before. */
const seamBytes = 2;

export class SseEventEnds {
  #before: Buffer = Buffer.alloc(0);

  /** Where in these bytes, which follow those of the last call, the last event ends, about; -1 where none does. */
  lastIn(bytes: Buffer): number {
    const within = Math.max(...emptyLines.map((line) => bytes.lastIndexOf(line)));
    const end = within < 0 && this.#endsAtSeam(bytes) ? 0 : within;
    const all = bytes.length < seamBytes ? Buffer.concat([this.#before, bytes]) : bytes;
    this.#before = all.subarray(-seamBytes);
    return end;
  }

  #endsAtSeam(bytes: Buffer): boolean {
    const seam = Buffer.concat([this.#before, bytes.subarray(0, seamBytes)]);
    return emptyLines.some((line) => seam.includes(line));
  }
}
