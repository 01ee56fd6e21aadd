/** What a provider answered instead, in the form of the errors of the AI SDK, whose meaning is known. */
import type { OutboundCall } from '../../outbound/outbound.ts';

type Answer = Awaited<ReturnType<OutboundCall>>;

/** As much as is looked at; what follows is left in the network. */
export const mostRefusalBytes = 16_000;
/** As much of that as goes to the log. */
const mostCharacters = 4000;

export async function refusalOf({ status, headers, body }: Answer): Promise<Error> {
  const responseBody = await beginningOf(body);
  return Object.assign(new Error(`The provider refused with status ${status}`), {
    statusCode: status,
    responseHeaders: headers,
    responseBody,
  });
}

async function beginningOf(body: Answer['body']): Promise<string> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  for await (const piece of body) {
    pieces.push(piece);
    bytes += piece.length;
    if (bytes >= mostRefusalBytes) break;
  }
  return Buffer.concat(pieces).toString('utf8').slice(0, mostCharacters);
}
