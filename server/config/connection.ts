/** Where and how a provider is reached, with its variables replaced. What it makes holds secrets. */
import type { Provider } from '../contract/config.ts';
import type { BuiltInProvider, UsableType } from './built-in-providers.ts';
import { type Environment, ExpansionError, expandVariables, shown } from './variables.ts';

/** What a client of the provider is built with. */
export interface Connection {
  readonly baseUrl?: string;
  readonly apiKey?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly extraBody?: Readonly<Record<string, unknown>>;
}

/** Replaces the variables of a provider's settings. Throws ExpansionError, which never shows a value. */
export function connectionOf(
  provider: Provider,
  type: UsableType,
  builtIn: BuiltInProvider | undefined,
  environment: Environment,
): Connection {
  const apiKey = apiKeyOf(provider, type, builtIn, environment);
  const headers = headersOf(provider, environment);
  return {
    baseUrl: baseUrlOf(provider, type, builtIn, environment),
    ...(apiKey && { apiKey }),
    ...(headers && { headers }),
    ...(provider.extra_body && type === 'openai-compat' && { extraBody: provider.extra_body }),
  };
}

function baseUrlOf(
  provider: Provider,
  type: UsableType,
  builtIn: BuiltInProvider | undefined,
  environment: Environment,
): string {
  const written = expandVariables(provider.base_url ?? '', environment);
  // A variable of the vendor's is a value, not a template.
  const url = written || (builtIn && (environment[builtIn.baseUrlVariable] || builtIn.baseUrl)) || '';
  if (!/^https?:\/\//i.test(url) || !URL.canParse(url)) {
    throw new ExpansionError(
      'base_url is no http or https URL once its variables are replaced',
      'Write a URL, or set the variable to one.',
    );
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
  provider: Provider,
  type: UsableType,
  builtIn: BuiltInProvider | undefined,
  environment: Environment,
): string {
  const template = provider.api_key ?? (builtIn ? `$${builtIn.keyVariable}` : '');
  const key = expandVariables(template, environment).trim();
  if (!key && type !== 'openai-compat') {
    throw new ExpansionError(
      'The provider has no API key',
      template ? `Set ${shown(template)}.` : 'Add api_key.',
    );
  }
  if (!isHeaderValue(key)) {
    throw new ExpansionError('api_key holds characters that no HTTP header may hold', 'Copy the key again.');
  }
  return key;
}

function headersOf(
  { extra_headers }: Provider,
  environment: Environment,
): Readonly<Record<string, string>> | undefined {
  if (!extra_headers) return undefined;
  const headers = Object.entries(extra_headers).map(([name, template]): [string, string] => {
    const value = expandVariables(template, environment);
    // Caught here, because the HTTP client's own message would show the value.
    if (!/^[\w!#$%&'*+.^`|~-]+$/.test(name) || !isHeaderValue(value)) {
      const fault = `${JSON.stringify(name)} of extra_headers is no HTTP header once its variables are replaced`;
      throw new ExpansionError(fault, 'Leave out line breaks and letters beyond Latin-1.');
    }
    return [name, value];
  });
  return Object.fromEntries(headers.filter(([, value]) => value !== ''));
}

function isHeaderValue(value: string): boolean {
  return /^[\t\x20-\x7e\x80-\xff]*$/.test(value);
}
