/** Media types: what a body claims to be, and what a caller accepts. */
import type { IncomingMessage } from 'node:http';
import type { Route } from '../contract/routes.ts';
import { Problem } from '../problem.ts';

const token = "[\\w!#$%&'*+.^`|~-]+";
const mediaType = new RegExp(`^\\s*(${token}/${token})\\s*((?:;.*)?)$`);
const parameter = new RegExp(`;\\s*(${token})\\s*=\\s*(?:"([^"]*)"|(${token}))`, 'g');

/** Throws unless the body has a declared type, in UTF-8. Plain JSON will do where a merge patch is declared. */
export function requireMediaType(request: IncomingMessage, route: Route): string {
  const header = request.headers['content-type'];
  const expected = route.requestTypes.join(' or ');
  if (header === undefined)
    throw new Problem('unsupported_media_type', `Name the type of the body: Content-Type: ${expected}.`);
  const given = parse(header);
  const declared = given && declaredType(given.type, route);
  if (!declared) throw new Problem('unsupported_media_type', `This operation takes ${expected}.`);
  const charset = given.parameters.get('charset')?.toLowerCase() ?? 'utf-8';
  if (charset !== 'utf-8' && charset !== 'utf8')
    throw new Problem('unsupported_media_type', 'Send the body in UTF-8; no other charset is taken.');
  return declared;
}

/** By which of the declared types a body is judged; the first where it has none of them. */
export function judgedType({ headers }: Pick<IncomingMessage, 'headers'>, route: Route): string | undefined {
  const given = parse(headers['content-type'] ?? '');
  return (given && declaredType(given.type, route)) ?? route.requestTypes[0];
}

function declaredType(type: string, { requestTypes }: Route): string | undefined {
  if (requestTypes.includes(type)) return type;
  return type === 'application/json' ? requestTypes.find((one) => one.endsWith('json')) : undefined;
}

/** Generated clients for Python name nothing but JSON where any is declared: of a file, what a refusal would be. */
const problemType = 'application/problem+json';

/** Throws where the caller accepts none of the types that the operation answers with. */
export function requireAcceptable(request: IncomingMessage, route: Route): void {
  const header = request.headers.accept;
  if (header === undefined || header.trim() === '' || route.responseTypes.length === 0) return;
  const ranges = header.split(',').flatMap((range) => parse(range) ?? []);
  if (route.responseTypes.some((type) => quality(type, ranges) > 0)) return;
  if (!route.responseTypes.some((type) => type.endsWith('json')) && names(problemType, ranges)) return;
  throw new Problem('not_acceptable', `This operation answers with ${route.responseTypes.join(' or ')}.`);
}

function names(type: string, ranges: readonly MediaRange[]): boolean {
  return ranges.some((range) => range.type === type && qualityOf(range) > 0);
}

interface MediaRange {
  readonly type: string;
  readonly parameters: ReadonlyMap<string, string>;
}

/** The quality of the most specific range that covers the type (RFC 9110, 12.5.1). */
function quality(type: string, ranges: readonly MediaRange[]): number {
  const [group] = type.split('/');
  for (const candidate of [type, `${group}/*`, '*/*']) {
    const matches = ranges.filter((range) => range.type === candidate);
    if (matches.length > 0) return Math.max(...matches.map(qualityOf));
  }
  return 0;
}

function qualityOf(range: MediaRange): number {
  const quality = Number(range.parameters.get('q') ?? '1');
  return Number.isNaN(quality) ? 1 : quality;
}

function parse(text: string): MediaRange | null {
  const match = mediaType.exec(text);
  if (!match?.[1]) return null;
  const parameters = [...(match[2] ?? '').matchAll(parameter)].map(
    ([, name = '', quoted, plain]) => [name.toLowerCase(), quoted ?? plain ?? ''] as const,
  );
  return { type: match[1].toLowerCase(), parameters: new Map(parameters) };
}
