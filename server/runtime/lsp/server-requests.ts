/** What a language server asks of us, and what it is told. */
import type { MessageConnection } from 'vscode-jsonrpc/node';
import type { Log } from '../../log.ts';

/** What a server may register later than at its start. */
export interface Registrations {
  /** Whether the method was registered and not taken back. */
  has(method: string): boolean;
  /** The options of the registration. */
  optionsOf(method: string): unknown;
}

/** More than any server registers. */
const mostRegistrations = 200;
/** More than any server asks for at once: each is answered with settings. */
const mostItems = 1000;
const longestMessage = 1000;

/** Answers what may come; whatever else is asked gets the protocol's "method not found". */
export function answerServer(
  connection: MessageConnection,
  server: { readonly settings: Record<string, unknown>; readonly rootUri: string; readonly rootName: string },
  log: Log,
): Registrations {
  // By their ids: a server may register a method anew before it takes back the old registration.
  const registered = new Map<string, { readonly method: string; readonly options: unknown }>();
  const find = (method: string) => [...registered.values()].findLast((one) => one.method === method);
  connection.onRequest('workspace/configuration', (params: unknown) =>
    itemsOf(params, 'items')
      .slice(0, mostItems)
      .map((item) => sectionOf(server.settings, textOf(item, 'section'))),
  );
  connection.onRequest('client/registerCapability', (params: unknown) => {
    for (const registration of itemsOf(params, 'registrations')) {
      const [id, method] = [textOf(registration, 'id'), textOf(registration, 'method')];
      if (id && method && registered.size < mostRegistrations)
        registered.set(id, { method, options: memberOf(registration, 'registerOptions') });
    }
    return null;
  });
  connection.onRequest('client/unregisterCapability', (params: unknown) => {
    // The protocol spells it this way.
    for (const registration of itemsOf(params, 'unregisterations'))
      registered.delete(textOf(registration, 'id') ?? '');
    return null;
  });
  connection.onRequest('workspace/workspaceFolders', () => [{ uri: server.rootUri, name: server.rootName }]);
  // Nothing that a server wants to change or to show is changed or shown: it is asked for what it knows.
  connection.onRequest('workspace/applyEdit', () => ({ applied: false }));
  connection.onRequest('window/showDocument', () => ({ success: false }));
  for (const method of ['window/workDoneProgress/create', 'window/showMessageRequest', ...refreshes])
    connection.onRequest(method, () => null);
  for (const method of ['window/showMessage', 'window/logMessage'])
    connection.onNotification(method, (params: unknown) => {
      const message = (textOf(params, 'message') ?? '').slice(0, longestMessage);
      // 1 is an error and 2 a warning; the rest is talk.
      const type = memberOf(params, 'type');
      if (type === 1 || type === 2) log.info({ said: message }, 'a language server complains');
      else log.debug({ said: message }, 'a language server says');
    });
  return { has: (method) => find(method) !== undefined, optionsOf: (method) => find(method)?.options };
}

const refreshes = [
  'diagnostic',
  'semanticTokens',
  'inlayHint',
  'codeLens',
  'inlineValue',
  'foldingRange',
].map((what) => (what === 'diagnostic' ? 'workspace/diagnostic/refresh' : `workspace/${what}/refresh`));

/** The part of the settings that a dotted name stands for; all of them without a name, null where there is nothing. */
function sectionOf(settings: Record<string, unknown>, section: string | undefined): unknown {
  if (!section) return settings;
  if (Object.hasOwn(settings, section)) return settings[section];
  let value: unknown = settings;
  for (const name of section.split('.')) value = memberOf(value, name);
  return value ?? null;
}

/** A member of what may be no object at all: it comes from another program. */
export function memberOf(value: unknown, name: string): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined;
  return (value as Record<string, unknown>)[name]; // an object, as seen above
}

/** A member that is text. */
export function textOf(value: unknown, name: string): string | undefined {
  const member = memberOf(value, name);
  return typeof member === 'string' ? member : undefined;
}

/** A member that is a list; empty where it is none. */
export function itemsOf(value: unknown, name: string): readonly unknown[] {
  const member = memberOf(value, name);
  return Array.isArray(member) ? member : [];
}
