/** Where Anthropic itself answers: others that speak its API know less of it, or want something else. */
export const anthropicBaseUrl = 'https://api.anthropic.com/v1';

export function isAnthropicsOwn(baseUrl: string | undefined): boolean {
  return !baseUrl || (URL.canParse(baseUrl) && new URL(baseUrl).host === new URL(anthropicBaseUrl).host);
}
