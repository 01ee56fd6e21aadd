/** What commits and pull requests that the agent makes say about who made them (`options.attribution`). */
import type { ClientConfig } from '../../contract/config.ts';

/** For the model that has a shell; empty where nothing is wanted. `model` is its full name. */
export function attributionInstructions(config: ClientConfig, model: string): string {
  const { trailer_style = 'assisted-by', generated_with = true } = config.options?.attribution ?? {};
  const trailer = trailers[trailer_style](model);
  return [
    ...(trailer
      ? [`End the message of each commit that you make with the trailer \`${trailer}\`, after an empty line.`]
      : []),
    ...(generated_with
      ? [
          'Put the line `Generated with service` into the text of each commit, issue and pull request that you make, ' +
            'before any trailer.',
        ]
      : []),
  ].join('\n');
}

const trailers: Readonly<
  Record<
    NonNullable<NonNullable<NonNullable<ClientConfig['options']>['attribution']>['trailer_style']>,
    (model: string) => string | null
  >
> = {
  none: () => null,
  // An address of a domain that nobody can register: no stranger's account is credited.
  'co-authored-by': () => 'Co-Authored-By: service <service@agents.invalid>',
  'assisted-by': (model) => `Assisted-by: service:${model}`,
};
