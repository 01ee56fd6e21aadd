/** What the service knows of providers by itself. */
import type { ProviderType } from './provider-type.ts';

/** The types that this version can speak to. */
export type UsableType = Extract<ProviderType, 'openai' | 'openai-compat' | 'anthropic'>;

/** A provider that needs nothing but a key. */
export interface BuiltInProvider {
  readonly name: string;
  readonly type: UsableType;
  readonly baseUrl: string;
  /** Holds the key; with _FILE behind its name, the path of a file that holds it. */
  readonly keyVariable: string;
  readonly baseUrlVariable: string;
}

/** By id. A Map, because an id may be "constructor". */
export const builtInProviders: ReadonlyMap<string, BuiltInProvider> = new Map([
  [
    'openai',
    {
      name: 'OpenAI',
      type: 'openai',
      baseUrl: 'https://api.openai.com/v1',
      keyVariable: 'OPENAI_API_KEY',
      baseUrlVariable: 'OPENAI_BASE_URL',
    },
  ],
  [
    'anthropic',
    {
      name: 'Anthropic',
      type: 'anthropic',
      baseUrl: 'https://api.anthropic.com/v1',
      keyVariable: 'ANTHROPIC_API_KEY',
      baseUrlVariable: 'ANTHROPIC_BASE_URL',
    },
  ],
]);

/** The variables whose value may stand in a file instead, which a variable with _FILE behind its name then names. */
export const secretVariables: ReadonlySet<string> = new Set(
  [...builtInProviders.values()].map(({ keyVariable }) => keyVariable),
);

/** The model of a built-in provider whose settings list none; null where only the provider knows its models. */
export const defaultModels: Readonly<Record<UsableType, string | null>> = {
  openai: 'gpt-5.2',
  'openai-compat': null,
  anthropic: 'claude-sonnet-5',
};

/** Whether this version can speak to providers of the type. */
export function isUsable(type: ProviderType): type is UsableType {
  return Object.hasOwn(defaultModels, type);
}
