"""The provider simulator: an OpenAI-compatible server with full control of its bytes."""
