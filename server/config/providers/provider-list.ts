/** Every provider that settings or environment name, usable or not, as a person lists them. It holds no secret. */
import type { ClientConfig } from '../../contract/config.ts';
import { pointerKeys, pointerTo } from '../pointer.ts';
import type { Environment } from '../templates/variables.ts';
import { withoutSecrets } from '../url-secrets.ts';
import { builtInProviders } from './built-in-providers.ts';
import { type ProviderType, realProviderType } from './provider-type.ts';
import { type CandidateModel, type ResolvedProviders, resolveProviders } from './providers.ts';

/** One provider, and whether it can be asked. */
export interface ListedProvider {
  readonly id: string;
  readonly name: string;
  readonly type: ProviderType;
  /** As it is written, variables included; null where nobody says it. */
  readonly baseUrl: string | null;
  readonly state: 'usable' | 'disabled' | 'unusable';
  /** Why it cannot be used, and what to do about it. */
  readonly fault: { readonly message: string; readonly remedy: string } | null;
  /** The variable whose key it came by; null where the settings name the provider. */
  readonly variable: string | null;
  readonly models: readonly CandidateModel[];
}

/** The providers in order of preference: those of the settings, then those whose key is in the environment. */
export function listProviders(config: ClientConfig, environment: Environment): ListedProvider[] {
  const resolved = resolveProviders(config, environment);
  const written = Object.keys(config.providers ?? {});
  const found = resolved.candidates.filter(({ origin }) => origin === 'environment').map(({ id }) => id);
  const faulty = resolved.diagnostics.map(({ pointer }) => pointerKeys(pointer)[1] ?? '');
  const ids = new Set([...written, ...found, ...faulty]);
  return [...ids].map((id) => listed(id, config, environment, resolved));
}

function listed(
  id: string,
  config: ClientConfig,
  environment: Environment,
  { candidates, diagnostics }: ResolvedProviders,
): ListedProvider {
  const provider = Object.hasOwn(config.providers ?? {}, id) ? config.providers?.[id] : undefined;
  const builtIn = config.options?.disable_default_providers ? undefined : builtInProviders.get(id);
  const candidate = candidates.find((one) => one.id === id);
  const fault = diagnostics.find(({ pointer }) => pointer === pointerTo(['providers', id])) ?? null;
  const type = realProviderType(provider?.type ?? builtIn?.type ?? 'openai');
  const usual = builtIn?.type === type ? usualUrl(builtIn, environment) : null;
  return {
    id,
    name: provider?.name ?? builtIn?.name ?? id,
    type,
    baseUrl: provider?.base_url === undefined ? usual : withoutSecrets(provider.base_url),
    state: provider?.disable ? 'disabled' : candidate ? 'usable' : 'unusable',
    fault: candidate || !fault ? null : { message: fault.message, remedy: fault.remedy },
    variable: provider || !builtIn ? null : keyVariable(builtIn, environment),
    models: candidate?.models ?? [],
  };
}

type BuiltIn = NonNullable<ReturnType<typeof builtInProviders.get>>;

/** As it is written, with the variables that say it. */
function usualUrl({ baseUrl }: BuiltIn, environment: Environment): string | null {
  return baseUrl((variable) => (environment[variable] ? `$${variable}` : '')) || null;
}

function keyVariable({ keyVariable: name }: BuiltIn, environment: Environment): string {
  return environment[name] ? name : `${name}_FILE`;
}
