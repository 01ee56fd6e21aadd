/** Where and how a provider is reached, with its templates replaced. What it makes holds secrets. */
import type { Provider } from '../../contract/config.ts';
import { expandMarked, previewMarked } from '../templates/expand.ts';
import { ExpansionError, shown } from '../templates/expansion-error.ts';
import { type Environment, expandTemplate, lookUp, lookUpFile } from '../templates/variables.ts';
import type { BuiltInProvider } from './built-in-providers.ts';
import { accessToken, checkOauth } from './oauth.ts';
import type { ProviderType } from './provider-type.ts';
import { checkVertexUrl, isKeyFile, vertexKey } from './vertex-key.ts';

/** What a client of the provider is built with. */
export interface Connection {
  readonly baseUrl?: string;
  readonly apiKey?: string;
  /** Sent in the Authorization header where the vendor's keys go elsewhere. */
  readonly authToken?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly extraBody?: Readonly<Record<string, unknown>>;
}

/** A provider of the settings, and what the service adds to it by itself. */
export interface ConnectionSource {
  readonly provider: Provider;
  readonly type: ProviderType;
  readonly builtIn: BuiltInProvider | undefined;
}

/** What templates are resolved with. */
export interface TemplateSurroundings {
  readonly environment: Environment;
  /** Whether every value is what it says: no variable and no command is replaced. */
  readonly literal?: true;
  /** Where commands run. */
  readonly workingDirectory: string;
}

/** Any provider: the schema says the same of all. */
const pointer = '/providers/any';
/** Stands for what only a command can tell, and passes for a URL, a key and a header. */
const notYetKnown = 'http://not-yet-known.invalid';

/** What nothing outside of the settings adds to is the same each time: they hold what it holds. */
const constant = new WeakMap<ConnectionSource, Connection>();

/** Replaces the templates of a provider's settings, and runs their commands. Throws ExpansionError, which never shows a value. */
export async function connectionOf(
  source: ConnectionSource,
  { environment, workingDirectory, literal }: TemplateSurroundings,
  signal?: AbortSignal,
): Promise<Connection> {
  const known = constant.get(source);
  if (known) return known;
  const { provider } = source;
  const expand = (template: string) => expandTemplate(template, environment, { workingDirectory, signal });
  const expanded = literal ? provider : await expandMarked(provider, pointer, expand);
  const token = provider.oauth && !provider.api_key ? await accessToken(provider.oauth) : null;
  const connection = assembled(source, expanded, token, environment);
  const saysAll = expanded === provider && provider.base_url && provider.api_key !== undefined;
  if (token === null && saysAll) constant.set(source, connection);
  return connection;
}

/** Finds what is wrong without running a command, so that it is told at the start. Throws ExpansionError. */
export function checkConnection(
  source: ConnectionSource,
  { environment, literal }: TemplateSurroundings,
): void {
  const { provider } = source;
  const previewed = literal ? provider : previewMarked(provider, pointer, environment, notYetKnown);
  const { oauth, api_key } = provider;
  if (oauth && !api_key) checkOauth(oauth);
  assembled(source, previewed, oauth && !api_key ? oauth.access_token : null, environment);
}

function assembled(
  { provider: written, type, builtIn }: ConnectionSource,
  provider: Provider,
  token: string | null,
  environment: Environment,
): Connection {
  const baseUrl = baseUrlOf(provider, type, builtIn, environment);
  const apiKey = token ?? apiKeyOf(written, provider, type, builtIn, environment);
  if (!isHeaderValue(apiKey)) {
    const fault = `${token === null ? 'api_key' : 'oauth'} holds characters that no HTTP header may hold`;
    throw new ExpansionError(fault, 'Copy the key again.');
  }
  // An API key belongs to a project by itself; all else is below one.
  if (type === 'vertexai' && baseUrl !== notYetKnown && (token !== null || isKeyFile(apiKey)))
    checkVertexUrl(baseUrl);
  const headers = headersOf(provider);
  return {
    baseUrl,
    // Where keys have a header of their own, tokens go where everybody takes them.
    ...(apiKey && (token === null || keysAreTokens.includes(type) ? { apiKey } : { authToken: apiKey })),
    ...(headers && { headers }),
    ...(provider.extra_body && type === 'openai-compat' && { extraBody: provider.extra_body }),
  };
}

/** They take keys in the Authorization header too. */
const keysAreTokens: readonly ProviderType[] = ['openai', 'openai-compat'];

function baseUrlOf(
  { base_url: written }: Provider,
  type: ProviderType,
  builtIn: BuiltInProvider | undefined,
  environment: Environment,
): string {
  // A variable of the vendor's is a value, not a template.
  const url = written || builtIn?.baseUrl((variable) => lookUp(variable, environment)) || '';
  if (!url && builtIn)
    throw new ExpansionError(
      'The provider has no base_url',
      `Write one, or set ${builtIn.needs.join(' and ')}.`,
    );
  const parsed = /^https?:\/\//i.test(url) && URL.canParse(url) ? new URL(url) : null;
  if (!parsed) {
    throw new ExpansionError(
      'base_url is no http or https URL once its variables are replaced',
      'Write a URL, or set the variable to one.',
    );
  }
  if (parsed.username || parsed.password) {
    const fault = 'base_url holds a user name or a password, which would be shown where URLs are';
    throw new ExpansionError(fault, 'Write it into api_key or extra_headers.');
  }
  return type === 'anthropic' ? versioned(url) : url;
}

/** The vendor's own client wants the URL without the version, others with it: both are meant. */
function versioned(url: string): string {
  const bare = url.replace(/\/+$/, '');
  return bare.endsWith('/v1') ? bare : `${bare}/v1`;
}

/** A server that imitates OpenAI's may need no key; the vendors always do. */
function apiKeyOf(
  written: Provider,
  provider: Provider,
  type: ProviderType,
  builtIn: BuiltInProvider | undefined,
  environment: Environment,
): string {
  const own = written.api_key === undefined ? builtIn : undefined;
  const variable = own?.keyVariable;
  const look = own?.keyIsFile ? lookUpFile : lookUp;
  const key = (variable ? look(variable, environment) : (provider.api_key ?? '')).trim();
  if (key && type === 'vertexai') return vertexKey(key);
  if (key || type === 'openai-compat') return key;
  const template = variable ? `$${variable}` : written.api_key;
  throw new ExpansionError(
    'The provider has no API key',
    template ? `Set ${shown(template)}.` : 'Add api_key.',
  );
}

function headersOf({ extra_headers }: Provider): Readonly<Record<string, string>> | undefined {
  if (!extra_headers) return undefined;
  for (const [name, value] of Object.entries(extra_headers)) {
    // Caught here, because the HTTP client's own message would show the value.
    if (/^[\w!#$%&'*+.^`|~-]+$/.test(name) && isHeaderValue(value)) continue;
    const fault = `${JSON.stringify(name)} of extra_headers is no HTTP header once its variables are replaced`;
    throw new ExpansionError(fault, 'Leave out line breaks and letters beyond Latin-1.');
  }
  return Object.fromEntries(Object.entries(extra_headers).filter(([, value]) => value !== ''));
}

function isHeaderValue(value: string): boolean {
  return /^[\t\x20-\x7e\x80-\xff]*$/.test(value);
}
