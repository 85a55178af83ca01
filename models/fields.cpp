// The values of each config by name.
#include "models/fields.h"

namespace sextant::importers {

std::vector<Field> fields_of(ConvNetConfig& config) {
  return {{"image_channels", &config.image_channels},
          {"height", &config.height},
          {"width", &config.width},
          {"classes", &config.classes},
          {"stem_channels", &config.stem_channels},
          {"stem_kernel", &config.stem_kernel},
          {"stem_stride", &config.stem_stride},
          {"stem_pool", &config.stem_pool},
          {"bottleneck", &config.bottleneck},
          {"blocks", &config.blocks},
          {"channels", &config.channels},
          {"norm_epsilon", &config.norm_epsilon},
          {"norm_momentum", &config.norm_momentum},
          {"label_smoothing", &config.label_smoothing},
          {"input", &config.input}};
}

std::vector<Field> fields_of(WideDeepConfig& config) {
  return {{"wide_fields", &config.wide_fields}, {"wide_vocab", &config.wide_vocab},
          {"deep_fields", &config.deep_fields}, {"deep_vocab", &config.deep_vocab},
          {"embedding", &config.embedding},     {"dense", &config.dense},
          {"hidden", &config.hidden},           {"initializer_range", &config.initializer_range}};
}

std::vector<Field> fields_of(ClassHeadConfig& config) {
  return {{"features", &config.features},
          {"hidden", &config.hidden},
          {"classes", &config.classes},
          {"initializer_range", &config.initializer_range},
          {"label_smoothing", &config.label_smoothing}};
}

std::vector<Field> fields_of(FaceNetConfig& config) {
  return {{"image_channels", &config.image_channels},
          {"height", &config.height},
          {"width", &config.width},
          {"stem_channels", &config.stem_channels},
          {"stem_stride", &config.stem_stride},
          {"stem_depthwise", &config.stem_depthwise},
          {"blocks", &config.blocks},
          {"channels", &config.channels},
          {"strides", &config.strides},
          {"expansions", &config.expansions},
          {"last_channels", &config.last_channels},
          {"features", &config.features},
          {"classes", &config.classes},
          {"sampled", &config.sampled},
          {"buckets", &config.buckets},
          {"norm_epsilon", &config.norm_epsilon},
          {"norm_momentum", &config.norm_momentum},
          {"initializer_range", &config.initializer_range},
          {"label_smoothing", &config.label_smoothing},
          {"input", &config.input}};
}

}  // namespace sextant::importers
