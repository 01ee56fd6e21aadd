/** The address of a server, as a person names it: held strict, since credentials go there. */
import { CommandFailure, exitCodes } from '../failures.ts';

/** The origin of a server that credentials may be sent to. */
export function serverOrigin(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (!url || !/^https?:$/.test(url.protocol) || url.hostname === '')
    throw refusal(
      `${JSON.stringify(text)} is no address of a server: write it as https://service.example.com.`,
    );
  if (url.username || url.password)
    throw refusal('The address of a server has no user or password in it: log in with service login.');
  if (url.pathname !== '/' || url.search || url.hash)
    throw refusal(`${url.origin} is the address of that server; leave out what follows it.`);
  if (url.protocol === 'http:' && !isLoopback(url.hostname))
    throw refusal(
      `${url.origin} is not encrypted: everybody on the way would read your credential and what you say. Use https://${url.host}.`,
    );
  return url.origin;
}

function isLoopback(host: string): boolean {
  // URL has brought every other spelling of an address into these.
  return host === 'localhost' || host === '[::1]' || /^127(\.\d{1,3}){3}$/.test(host);
}

function refusal(message: string): CommandFailure {
  return new CommandFailure(message, exitCodes.usage);
}
