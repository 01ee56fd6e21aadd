/** What a provider answered instead, in the form of the errors of the AI SDK, whose meaning is known. */
import { type OutboundCall, textOf } from '../../outbound/outbound.ts';

type Answer = Awaited<ReturnType<OutboundCall>>;

const mostCharacters = 4000;

export async function refusalOf({ status, headers, body }: Answer): Promise<Error> {
  const responseBody = (await textOf(body)).slice(0, mostCharacters);
  return Object.assign(new Error(`The provider refused with status ${status}`), {
    statusCode: status,
    responseHeaders: headers,
    responseBody,
  });
}
